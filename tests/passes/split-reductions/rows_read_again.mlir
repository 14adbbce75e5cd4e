// RUN: anyshape opt %s -p split-reductions
// A row whose sum is taken from each of its elements stays whole.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %1 = dhlo.reduce %0 {axes = array<i64: 1>, kind = "sum"} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %2 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %3 = dhlo.subtract %0, %2 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %3 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %1 = dhlo.reduce %0 {axes = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %2 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %3 = dhlo.subtract %0, %2 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %3 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
