// RUN: anyshape opt %s -p dce
// Ops that only dead ops use are dead.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>> {
  %1 = dhlo.tanh %0 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %2 = dhlo.exponential %1 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %3 = dhlo.constant {value = 1.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[m]>} : () -> tensor<?xf32, #dhlo.dims<[m]>>
  %4 = dhlo.add %2, %3 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %5 = dhlo.iota {axis = 0 : i64, sizes = #dhlo.dims<[m]>} : () -> tensor<?xi64, #dhlo.dims<[m]>>
  func.return %1 : tensor<?xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>> {
// CHECK-NEXT:     %1 = dhlo.tanh %0 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %1 : tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
