// RUN: anyshape opt %s -p canonicalise-products
// Both factors are matrices already, the right one in either order.

func.func @main(%0: tensor<?x?x?xf32, #dhlo.dims<[b, m, k]>>, %1: tensor<?x?xf32, #dhlo.dims<[k, n]>>, %2: tensor<?x?xf32, #dhlo.dims<[n, k]>>) -> (tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>, tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>) {
  %3 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<?x?x?xf32, #dhlo.dims<[b, m, k]>>, tensor<?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>
  %4 = dhlo.dot_general %0, %2 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x?xf32, #dhlo.dims<[b, m, k]>>, tensor<?x?xf32, #dhlo.dims<[n, k]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>
  func.return %3, %4 : tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>, tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x?xf32, #dhlo.dims<[b, m, k]>>, %1: tensor<?x?xf32, #dhlo.dims<[k, n]>>, %2: tensor<?x?xf32, #dhlo.dims<[n, k]>>) -> (tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>, tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>) {
// CHECK-NEXT:     %3 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<?x?x?xf32, #dhlo.dims<[b, m, k]>>, tensor<?x?xf32, #dhlo.dims<[k, n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>
// CHECK-NEXT:     %4 = dhlo.dot_general %0, %2 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x?xf32, #dhlo.dims<[b, m, k]>>, tensor<?x?xf32, #dhlo.dims<[n, k]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>
// CHECK-NEXT:     func.return %3, %4 : tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>, tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
