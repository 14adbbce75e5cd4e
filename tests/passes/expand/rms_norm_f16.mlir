// RUN: anyshape opt %s -p expand
// f16 is computed in f32 and rounded once.

func.func @main(%0: tensor<?x?xf16, #dhlo.dims<[m, n]>>, %1: tensor<?xf16, #dhlo.dims<[n]>>) -> tensor<?x?xf16, #dhlo.dims<[m, n]>> {
  %2 = dhlo.rms_norm %0, %1 {axes = array<i64: 1>, epsilon = 1.000000e-05 : f64} : (tensor<?x?xf16, #dhlo.dims<[m, n]>>, tensor<?xf16, #dhlo.dims<[n]>>) -> tensor<?x?xf16, #dhlo.dims<[m, n]>>
  func.return %2 : tensor<?x?xf16, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf16, #dhlo.dims<[m, n]>>, %1: tensor<?xf16, #dhlo.dims<[n]>>) -> tensor<?x?xf16, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %2 = dhlo.convert %0 {dtype = f32} : (tensor<?x?xf16, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %3 = dhlo.multiply %2, %2 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %4 = dhlo.reduce %3 {axes = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %5 = dhlo.size {size = #dhlo.dims<[n]>} : () -> tensor<i64>
// CHECK-NEXT:     %6 = dhlo.convert %5 {dtype = f32} : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:     %7 = dhlo.broadcast_in_dim %6 {dimensions = array<i64>, sizes = #dhlo.dims<[m]>} : (tensor<f32>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %8 = dhlo.divide %4, %7 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %9 = dhlo.constant {value = 1.000000e-05 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %10 = dhlo.add %8, %9 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %11 = dhlo.rsqrt %10 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %12 = dhlo.broadcast_in_dim %11 {dimensions = array<i64: 0>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %13 = dhlo.multiply %2, %12 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %14 = dhlo.convert %1 {dtype = f32} : (tensor<?xf16, #dhlo.dims<[n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
// CHECK-NEXT:     %15 = dhlo.broadcast_in_dim %14 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %16 = dhlo.multiply %13, %15 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %17 = dhlo.convert %16 {dtype = f16} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf16, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %17 : tensor<?x?xf16, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
