// RUN: anyshape opt %s -p merge-products
// Products alone.

func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>> {
  %1 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %3 = dhlo.reshape %2 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %4 = dhlo.transpose %3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %5 = dhlo.weight {name = "w1", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %6 = dhlo.dot_general %0, %5 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %7 = dhlo.reshape %6 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %8 = dhlo.transpose %7 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %9 = dhlo.weight {name = "w2", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %10 = dhlo.dot_general %0, %9 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %11 = dhlo.reshape %10 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %12 = dhlo.transpose %11 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %13 = dhlo.attention %4, %8, %12 {scale = 5.000000e-01 : f64} : (tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  func.return %13 : tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>> {
// CHECK-NEXT:     %1 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %2 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %3 = dhlo.weight {name = "w1", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %4 = dhlo.weight {name = "w2", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %5 = dhlo.concatenate %2, %3, %4 {axis = 0 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<12x6xf32>
// CHECK-NEXT:     %6 = dhlo.dot_general %0, %5 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<12x6xf32>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %7 = dhlo.slice %6 {starts = #dhlo.dims<[0, 0, 0]>, sizes = #dhlo.dims<[b, s, 4]>, strides = array<i64: 1, 1, 1>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %8 = dhlo.slice %6 {starts = #dhlo.dims<[0, 0, 4]>, sizes = #dhlo.dims<[b, s, 4]>, strides = array<i64: 1, 1, 1>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %9 = dhlo.slice %6 {starts = #dhlo.dims<[0, 0, 8]>, sizes = #dhlo.dims<[b, s, 4]>, strides = array<i64: 1, 1, 1>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %10 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %11 = dhlo.reshape %7 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %12 = dhlo.transpose %11 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %13 = dhlo.weight {name = "w1", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %14 = dhlo.dot_general %0, %13 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %15 = dhlo.reshape %8 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %16 = dhlo.transpose %15 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %17 = dhlo.weight {name = "w2", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %18 = dhlo.dot_general %0, %17 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %19 = dhlo.reshape %9 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %20 = dhlo.transpose %19 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %21 = dhlo.attention %12, %16, %20 {scale = 5.000000e-01 : f64} : (tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     func.return %21 : tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
