// RUN: anyshape opt %s -p fold
// Positions are index arithmetic inside a kernel and no array in memory: they are not folded.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> (tensor<f32>, tensor<?xf32, #dhlo.dims<[m]>>) {
  %1 = dhlo.iota {axis = 0 : i64, sizes = #dhlo.dims<[4]>, dtype = f32} : () -> tensor<4xf32>
  %2 = dhlo.constant {value = 2.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
  %3 = dhlo.multiply %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dhlo.reduce %3 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  func.return %4, %0 : tensor<f32>, tensor<?xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> (tensor<f32>, tensor<?xf32, #dhlo.dims<[m]>>) {
// CHECK-NEXT:     %1 = dhlo.iota {axis = 0 : i64, sizes = #dhlo.dims<[4]>, dtype = f32} : () -> tensor<4xf32>
// CHECK-NEXT:     %2 = dhlo.constant {value = 2.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %3 = dhlo.multiply %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:     %4 = dhlo.reduce %3 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
// CHECK-NEXT:     func.return %4, %0 : tensor<f32>, tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
