// RUN: anyshape opt %s -p simplify
// One broadcast is left.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[n]>>, %1: tensor<?xi1, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %2 = dhlo.broadcast_in_dim %0 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
  %3 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %3 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[n]>>, %1: tensor<?xi1, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %2 = dhlo.broadcast_in_dim %0 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %2 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
