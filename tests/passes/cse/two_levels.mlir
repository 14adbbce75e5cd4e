// RUN: anyshape opt %s -p cse
// Ops become equal when their operands do.

func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>> {
  %1 = dhlo.exponential %0 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %2 = dhlo.exponential %0 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %3 = dhlo.tanh %1 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %4 = dhlo.tanh %2 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  %5 = dhlo.add %3, %4 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
  func.return %5 : tensor<?xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>> {
// CHECK-NEXT:     %1 = dhlo.exponential %0 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %2 = dhlo.tanh %1 : (tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %3 = dhlo.add %2, %2 : (tensor<?xf32, #dhlo.dims<[m]>>, tensor<?xf32, #dhlo.dims<[m]>>) -> tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %3 : tensor<?xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
