// RUN: anyshape opt %s -p canonicalise-products
// The free axes of lhs have the contracted axis between them.

func.func @main(%0: tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, %1: tensor<?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x3x?xf32, #dhlo.dims<[m, n]>> {
  %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, tensor<?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x3x?xf32, #dhlo.dims<[m, n]>>
  func.return %2 : tensor<?x3x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, %1: tensor<?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x3x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %2 = dhlo.transpose %0 {permutation = array<i64: 0, 2, 1>} : (tensor<?x?x3xf32, #dhlo.dims<[m, k]>>) -> tensor<?x3x?xf32, #dhlo.dims<[m, k]>>
// CHECK-NEXT:     %3 = dhlo.dot_general %2, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<?x3x?xf32, #dhlo.dims<[m, k]>>, tensor<?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x3x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %3 : tensor<?x3x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
