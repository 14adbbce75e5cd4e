// RUN: anyshape opt %s -p sink-reshapes
// Bias, scale and activation after a reshaped product move before the reshape.

func.func @main(%0: tensor<?x8xf32, #dhlo.dims<[b*s]>>, %1: tensor<?xi1, #dhlo.dims<[b]>>, %2: tensor<?xi1, #dhlo.dims<[s]>>, %3: tensor<8xf32>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>> {
  %4 = dhlo.reshape %0 {sizes = #dhlo.dims<[b, s, 8]>} : (tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  %5 = dhlo.broadcast_in_dim %3 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 8]>} : (tensor<8xf32>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  %6 = dhlo.add %4, %5 : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>, tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  %7 = dhlo.constant {value = 5.000000e-01 : f64, dtype = f32, sizes = #dhlo.dims<[b, s, 8]>} : () -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  %8 = dhlo.multiply %6, %7 : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>, tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  %9 = dhlo.gelu %8 : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  func.return %9 : tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x8xf32, #dhlo.dims<[b*s]>>, %1: tensor<?xi1, #dhlo.dims<[b]>>, %2: tensor<?xi1, #dhlo.dims<[s]>>, %3: tensor<8xf32>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>> {
// CHECK-NEXT:     %4 = dhlo.broadcast_in_dim %3 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[b*s, 8]>} : (tensor<8xf32>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
// CHECK-NEXT:     %5 = dhlo.add %0, %4 : (tensor<?x8xf32, #dhlo.dims<[b*s]>>, tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
// CHECK-NEXT:     %6 = dhlo.constant {value = 5.000000e-01 : f64, dtype = f32, sizes = #dhlo.dims<[b*s, 8]>} : () -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
// CHECK-NEXT:     %7 = dhlo.multiply %5, %6 : (tensor<?x8xf32, #dhlo.dims<[b*s]>>, tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
// CHECK-NEXT:     %8 = dhlo.gelu %7 : (tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
// CHECK-NEXT:     %9 = dhlo.reshape %8 {sizes = #dhlo.dims<[b, s, 8]>} : (tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     func.return %9 : tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
