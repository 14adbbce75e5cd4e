// RUN: anyshape opt %s -p canonicalise-products
// The contracted axes lie in different orders: one factor is transposed.

func.func @main(%0: tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, %1: tensor<3x?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 1, 2>, rhs_contract = array<i64: 1, 0>} : (tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, tensor<3x?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %2 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, %1: tensor<3x?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %2 = dhlo.transpose %1 {permutation = array<i64: 2, 1, 0>} : (tensor<3x?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?x3xf32, #dhlo.dims<[n, k]>>
// CHECK-NEXT:     %3 = dhlo.dot_general %0, %2 {lhs_contract = array<i64: 1, 2>, rhs_contract = array<i64: 1, 2>} : (tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, tensor<?x?x3xf32, #dhlo.dims<[n, k]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %3 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
