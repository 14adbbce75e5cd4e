// RUN: anyshape opt %s -p sink-reshapes
// A reshape that only inserts axes of size 1 hinders no fusion.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>> {
  %1 = dhlo.reshape %0 {sizes = #dhlo.dims<[m, 1, n]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
  %2 = dhlo.exponential %1 : (tensor<?x1x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
  func.return %2 : tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     %1 = dhlo.reshape %0 {sizes = #dhlo.dims<[m, 1, n]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %2 = dhlo.exponential %1 : (tensor<?x1x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     func.return %2 : tensor<?x1x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
