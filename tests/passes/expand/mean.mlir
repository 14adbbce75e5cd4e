// RUN: anyshape opt %s -p expand
// A sum over the number of elements.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<f32> {
  %1 = dhlo.mean %0 {axes = array<i64: 0, 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<f32>
  func.return %1 : tensor<f32>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<f32> {
// CHECK-NEXT:     %1 = dhlo.reduce %0 {axes = array<i64: 0, 1>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<f32>
// CHECK-NEXT:     %2 = dhlo.size {size = #dhlo.dims<[m*n]>} : () -> tensor<i64>
// CHECK-NEXT:     %3 = dhlo.convert %2 {dtype = f32} : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:     %4 = dhlo.broadcast_in_dim %3 {dimensions = array<i64>, sizes = #dhlo.dims<[]>} : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:     %5 = dhlo.divide %1, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT:     func.return %5 : tensor<f32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
