// RUN: anyshape opt %s -p canonicalise-products
// A weight of 16 bits is not widened first, whether it is transposed or not; what has another user is widened for that one.

func.func @main(%0: tensor<?x6xf32, #dhlo.dims<[m]>>) -> (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<4x6xf32>) {
  %1 = dhlo.weight {name = "w0", dtype = bf16, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xbf16>
  %2 = dhlo.convert %1 {dtype = f32} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
  %3 = dhlo.dot_general %0, %2 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<4x6xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  %4 = dhlo.weight {name = "w1", dtype = f16, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf16>
  %5 = dhlo.convert %4 {dtype = f32} : (tensor<4x6xf16>) -> tensor<4x6xf32>
  %6 = dhlo.transpose %5 {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %7 = dhlo.dot_general %0, %6 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<6x4xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  func.return %3, %7, %5 : tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<4x6xf32>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x6xf32, #dhlo.dims<[m]>>) -> (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<4x6xf32>) {
// CHECK-NEXT:     %1 = dhlo.weight {name = "w0", dtype = bf16, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xbf16>
// CHECK-NEXT:     %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<4x6xbf16>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %3 = dhlo.weight {name = "w1", dtype = f16, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf16>
// CHECK-NEXT:     %4 = dhlo.convert %3 {dtype = f32} : (tensor<4x6xf16>) -> tensor<4x6xf32>
// CHECK-NEXT:     %5 = dhlo.transpose %3 {permutation = array<i64: 1, 0>} : (tensor<4x6xf16>) -> tensor<6x4xf16>
// CHECK-NEXT:     %6 = dhlo.dot_general %0, %5 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<6x4xf16>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %2, %6, %4 : tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<4x6xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
