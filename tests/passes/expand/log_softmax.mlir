// RUN: anyshape opt %s -p expand
// Along the outer axis.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %1 = dhlo.log_softmax %0 {axis = 0 : i64} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %1 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %1 = dhlo.reduce %0 {axes = array<i64: 0>, kind = "max"} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
// CHECK-NEXT:     %2 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %3 = dhlo.subtract %0, %2 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %4 = dhlo.exponential %3 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %5 = dhlo.reduce %4 {axes = array<i64: 0>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
// CHECK-NEXT:     %6 = dhlo.log %5 : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
// CHECK-NEXT:     %7 = dhlo.broadcast_in_dim %6 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %8 = dhlo.subtract %3, %7 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %8 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
