// RUN: anyshape opt %s -p sink-reshapes
// The broadcast varies along an axis that the reshape makes: both stay.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[m*n]>>, %1: tensor<?xf32, #dhlo.dims<[n]>>, %2: tensor<?xi1, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %3 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %4 = dhlo.reshape %0 {sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m*n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %5 = dhlo.add %4, %3 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %5 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[m*n]>>, %1: tensor<?xf32, #dhlo.dims<[n]>>, %2: tensor<?xi1, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %3 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %4 = dhlo.reshape %0 {sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m*n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %5 = dhlo.add %4, %3 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %5 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
