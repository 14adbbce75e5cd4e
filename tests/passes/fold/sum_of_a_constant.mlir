// RUN: anyshape opt %s -p fold
// A reduction of static sizes whose result is one value.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>> {
  %1 = dhlo.constant {value = 1.500000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[3, 4]>} : () -> tensor<3x4xf32>
  %2 = dhlo.reduce %1 {axes = array<i64: 0, 1>} : (tensor<3x4xf32>) -> tensor<f32>
  %3 = dhlo.broadcast_in_dim %2 {dimensions = array<i64>, sizes = #dhlo.dims<[m]>} : (tensor<f32>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %4 = dhlo.multiply %0, %3 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  func.return %4 : tensor<?xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>> {
// CHECK-NEXT:     %1 = dhlo.constant {value = 1.800000e+01 : f64, dtype = f32} : () -> tensor<f32>
// CHECK-NEXT:     %2 = dhlo.broadcast_in_dim %1 {dimensions = array<i64>, sizes = #dhlo.dims<[m]>} : (tensor<f32>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %3 = dhlo.multiply %0, %2 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %3 : tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
