// RUN: anyshape opt %s -p sink-reshapes
// Reshapes of tensors of different sizes stay.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?x?xf32, #dhlo.dims<[n, m]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>> {
  %2 = dhlo.reshape %0 {sizes = #dhlo.dims<[m*n]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>>
  %3 = dhlo.reshape %1 {sizes = #dhlo.dims<[m*n]>} : (tensor<?x?xf32, #dhlo.dims<[n, m]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>>
  %4 = dhlo.add %2, %3 : (tensor<?xf32, #dhlo.dims<[m*n]>>, tensor<?xf32, #dhlo.dims<[m*n]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>>
  func.return %4 : tensor<?xf32, #dhlo.dims<[m*n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?x?xf32, #dhlo.dims<[n, m]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>> {
// CHECK-NEXT:     %2 = dhlo.reshape %0 {sizes = #dhlo.dims<[m*n]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>>
// CHECK-NEXT:     %3 = dhlo.reshape %1 {sizes = #dhlo.dims<[m*n]>} : (tensor<?x?xf32, #dhlo.dims<[n, m]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>>
// CHECK-NEXT:     %4 = dhlo.add %2, %3 : (tensor<?xf32, #dhlo.dims<[m*n]>>, tensor<?xf32, #dhlo.dims<[m*n]>>) -> tensor<?xf32, #dhlo.dims<[m*n]>>
// CHECK-NEXT:     func.return %4 : tensor<?xf32, #dhlo.dims<[m*n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
