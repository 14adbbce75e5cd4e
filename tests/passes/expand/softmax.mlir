// RUN: anyshape opt %s -p expand
// The maximum is subtracted first, so that no exponential overflows.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %1 = dhlo.softmax %0 {axis = 1 : i64} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %1 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %1 = dhlo.reduce %0 {axes = array<i64: 1>, kind = "max"} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %2 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %3 = dhlo.subtract %0, %2 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %4 = dhlo.exponential %3 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %5 = dhlo.reduce %4 {axes = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %6 = dhlo.constant {value = 1.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %7 = dhlo.divide %6, %5 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %8 = dhlo.broadcast_in_dim %7 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %9 = dhlo.multiply %4, %8 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %9 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
