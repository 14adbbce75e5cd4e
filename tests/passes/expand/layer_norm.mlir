// RUN: anyshape opt %s -p expand
// Mean and variance, then weight and bias.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?xf32, #dhlo.dims<[n]>>, %2: tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %3 = dhlo.layer_norm %0, %1, %2 {axes = array<i64: 1>, epsilon = 1.000000e-05 : f64} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?xf32, #dhlo.dims<[n]>>, tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %3 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?xf32, #dhlo.dims<[n]>>, %2: tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %3 = dhlo.reduce %0 {axes = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %4 = dhlo.size {size = #dhlo.dims<[n]>} : () -> tensor<i64>
// CHECK-NEXT:     %5 = dhlo.convert %4 {dtype = f32} : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:     %6 = dhlo.broadcast_in_dim %5 {dimensions = array<i64>, sizes = #dhlo.dims<[m]>} : (tensor<f32>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %7 = dhlo.divide %3, %6 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %8 = dhlo.broadcast_in_dim %7 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %9 = dhlo.subtract %0, %8 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %10 = dhlo.multiply %9, %9 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %11 = dhlo.reduce %10 {axes = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %12 = dhlo.size {size = #dhlo.dims<[n]>} : () -> tensor<i64>
// CHECK-NEXT:     %13 = dhlo.convert %12 {dtype = f32} : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:     %14 = dhlo.broadcast_in_dim %13 {dimensions = array<i64>, sizes = #dhlo.dims<[m]>} : (tensor<f32>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %15 = dhlo.divide %11, %14 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %16 = dhlo.constant {value = 1.000000e-05 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %17 = dhlo.add %15, %16 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %18 = dhlo.rsqrt %17 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %19 = dhlo.broadcast_in_dim %18 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %20 = dhlo.multiply %9, %19 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %21 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %22 = dhlo.multiply %20, %21 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %23 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %24 = dhlo.add %22, %23 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %24 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
