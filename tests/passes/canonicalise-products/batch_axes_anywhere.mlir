// RUN: anyshape opt %s -p canonicalise-products
// Attention scores on [batch, row, head, depth]: batch axes need not be neighbours.

func.func @main(%0: tensor<?x?x2x4xf32, #dhlo.dims<[b, m]>>, %1: tensor<?x?x2x4xf32, #dhlo.dims<[b, n]>>) -> tensor<?x2x?x?xf32, #dhlo.dims<[b, m, n]>> {
  %2 = dhlo.dot_general %0, %1 {lhs_batch = array<i64: 0, 2>, rhs_batch = array<i64: 0, 2>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<?x?x2x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x2x4xf32, #dhlo.dims<[b, n]>>) -> tensor<?x2x?x?xf32, #dhlo.dims<[b, m, n]>>
  func.return %2 : tensor<?x2x?x?xf32, #dhlo.dims<[b, m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x2x4xf32, #dhlo.dims<[b, m]>>, %1: tensor<?x?x2x4xf32, #dhlo.dims<[b, n]>>) -> tensor<?x2x?x?xf32, #dhlo.dims<[b, m, n]>> {
// CHECK-NEXT:     %2 = dhlo.dot_general %0, %1 {lhs_batch = array<i64: 0, 2>, rhs_batch = array<i64: 0, 2>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<?x?x2x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x2x4xf32, #dhlo.dims<[b, n]>>) -> tensor<?x2x?x?xf32, #dhlo.dims<[b, m, n]>>
// CHECK-NEXT:     func.return %2 : tensor<?x2x?x?xf32, #dhlo.dims<[b, m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
