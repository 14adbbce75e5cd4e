// RUN: anyshape opt %s -p merge-products
// One weight for all three has other users and stays.

func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>> {
  %1 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %3 = dhlo.reshape %2 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %4 = dhlo.transpose %3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %5 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %6 = dhlo.reshape %5 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %7 = dhlo.transpose %6 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %8 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %9 = dhlo.reshape %8 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %10 = dhlo.transpose %9 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %11 = dhlo.attention %4, %7, %10 {scale = 5.000000e-01 : f64} : (tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  func.return %11 : tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>> {
// CHECK-NEXT:     %1 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %3 = dhlo.reshape %2 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %4 = dhlo.transpose %3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %5 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %6 = dhlo.reshape %5 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %7 = dhlo.transpose %6 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %8 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %9 = dhlo.reshape %8 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %10 = dhlo.transpose %9 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %11 = dhlo.attention %4, %7, %10 {scale = 5.000000e-01 : f64} : (tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     func.return %11 : tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
