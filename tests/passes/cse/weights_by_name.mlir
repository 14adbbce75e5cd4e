// RUN: anyshape opt %s -p cse
// Weights of one name are one value.

func.func @main(%0: tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>> {
  %1 = dhlo.weight {name = "a", dtype = f32, sizes = #dhlo.dims<[3]>} : () -> tensor<3xf32>
  %2 = dhlo.weight {name = "a", dtype = f32, sizes = #dhlo.dims<[3]>} : () -> tensor<3xf32>
  %3 = dhlo.weight {name = "b", dtype = f32, sizes = #dhlo.dims<[3]>} : () -> tensor<3xf32>
  %4 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 3]>} : (tensor<3xf32>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
  %5 = dhlo.multiply %0, %4 : (tensor<?x3xf32, #dhlo.dims<[m]>>, tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
  %6 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 3]>} : (tensor<3xf32>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
  %7 = dhlo.multiply %5, %6 : (tensor<?x3xf32, #dhlo.dims<[m]>>, tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
  %8 = dhlo.broadcast_in_dim %3 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 3]>} : (tensor<3xf32>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
  %9 = dhlo.multiply %7, %8 : (tensor<?x3xf32, #dhlo.dims<[m]>>, tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
  func.return %9 : tensor<?x3xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>> {
// CHECK-NEXT:     %1 = dhlo.weight {name = "a", dtype = f32, sizes = #dhlo.dims<[3]>} : () -> tensor<3xf32>
// CHECK-NEXT:     %2 = dhlo.weight {name = "b", dtype = f32, sizes = #dhlo.dims<[3]>} : () -> tensor<3xf32>
// CHECK-NEXT:     %3 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 3]>} : (tensor<3xf32>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %4 = dhlo.multiply %0, %3 : (tensor<?x3xf32, #dhlo.dims<[m]>>, tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %5 = dhlo.multiply %4, %3 : (tensor<?x3xf32, #dhlo.dims<[m]>>, tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %6 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 3]>} : (tensor<3xf32>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %7 = dhlo.multiply %5, %6 : (tensor<?x3xf32, #dhlo.dims<[m]>>, tensor<?x3xf32, #dhlo.dims<[m]>>) -> tensor<?x3xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %7 : tensor<?x3xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
