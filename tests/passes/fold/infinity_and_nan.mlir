// RUN: anyshape opt %s -p fold
// Constants that are no numbers.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) {
  %1 = dhlo.constant {value = 0.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
  %2 = dhlo.log %1 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %3 = dhlo.subtract %2, %2 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %4 = dhlo.maximum %0, %2 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %5 = dhlo.add %0, %3 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  func.return %4, %5 : tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) {
// CHECK-NEXT:     %1 = dhlo.constant {value = 0xfff0000000000000 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %2 = dhlo.constant {value = 0xfff8000000000000 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %3 = dhlo.maximum %0, %1 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %4 = dhlo.add %0, %2 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %3, %4 : tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
