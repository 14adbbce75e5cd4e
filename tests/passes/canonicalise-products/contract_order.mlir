// RUN: anyshape opt %s -p canonicalise-products
// Another order of the pairs is enough: nothing is transposed.

func.func @main(%0: tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, %1: tensor<?x3x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2, 1>, rhs_contract = array<i64: 1, 0>} : (tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, tensor<?x3x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %2 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, %1: tensor<?x3x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 1, 2>, rhs_contract = array<i64: 0, 1>} : (tensor<?x?x3xf32, #dhlo.dims<[m, k]>>, tensor<?x3x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %2 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
