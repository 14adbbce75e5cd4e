// RUN: anyshape opt %s -p fold
// Elementwise ops on constants, whatever the sizes.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %1 = dhlo.constant {value = 2.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[m, n]>} : () -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %2 = dhlo.multiply %1, %1 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %3 = dhlo.constant {value = 9 : i64, dtype = i32, sizes = #dhlo.dims<[m, n]>} : () -> tensor<?x?xi32, #dhlo.dims<[m, n]>>
  %4 = dhlo.convert %3 {dtype = f32} : (tensor<?x?xi32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %5 = dhlo.sqrt %4 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %6 = dhlo.subtract %2, %5 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %7 = dhlo.add %0, %6 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %7 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %1 = dhlo.constant {value = 1.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[m, n]>} : () -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %2 = dhlo.add %0, %1 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %2 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
