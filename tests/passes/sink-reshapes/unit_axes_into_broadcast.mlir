// RUN: anyshape opt %s -p sink-reshapes
// A reshape that only inserts axes of size 1 is part of the broadcast after it.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?xi1, #dhlo.dims<[k]>>) -> tensor<?x?x?xf32, #dhlo.dims<[m, k, n]>> {
  %2 = dhlo.reshape %0 {sizes = #dhlo.dims<[m, 1, n]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
  %3 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 0, 1, 2>, sizes = #dhlo.dims<[m, k, n]>} : (tensor<?x1x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[m, k, n]>>
  func.return %3 : tensor<?x?x?xf32, #dhlo.dims<[m, k, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?xi1, #dhlo.dims<[k]>>) -> tensor<?x?x?xf32, #dhlo.dims<[m, k, n]>> {
// CHECK-NEXT:     %2 = dhlo.broadcast_in_dim %0 {dimensions = array<i64: 0, 2>, sizes = #dhlo.dims<[m, k, n]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[m, k, n]>>
// CHECK-NEXT:     func.return %2 : tensor<?x?x?xf32, #dhlo.dims<[m, k, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
