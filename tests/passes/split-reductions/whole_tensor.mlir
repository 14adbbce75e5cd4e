// RUN: anyshape opt %s -p split-reductions
// All axes of a dense tensor are one; those of a tensor with a row added are not.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?xf32, #dhlo.dims<[n]>>) -> (tensor<f32>, tensor<f32>) {
  %2 = dhlo.abs %0 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %3 = dhlo.reduce %2 {axes = array<i64: 0, 1>, kind = "sum"} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<f32>
  %4 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %5 = dhlo.add %2, %4 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %6 = dhlo.reduce %5 {axes = array<i64: 0, 1>, kind = "min"} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<f32>
  func.return %3, %6 : tensor<f32>, tensor<f32>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?xf32, #dhlo.dims<[n]>>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NEXT:     %2 = dhlo.abs %0 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %3 = dhlo.constant {value = 0.000000e+00 : f64, dtype = f32} : () -> tensor<f32>
// CHECK-NEXT:     %4 = dhlo.chunk %2, %3 {axes = array<i64: 0, 1>, count = #dhlo.dims<[max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1)]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<f32>) -> tensor<?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1), (m*n + max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1) - 1) floordiv max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1)]>>
// CHECK-NEXT:     %5 = dhlo.reduce %4 {axes = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1), (m*n + max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1) - 1) floordiv max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1)]>>) -> tensor<?xf32, #dhlo.dims<[max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1)]>>
// CHECK-NEXT:     %6 = dhlo.reduce %5 {axes = array<i64: 0>} : (tensor<?xf32, #dhlo.dims<[max(min((m*n) floordiv 16, (m*n) floordiv 16384, 256), 1)]>>) -> tensor<f32>
// CHECK-NEXT:     %7 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %8 = dhlo.add %2, %7 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %9 = dhlo.constant {value = 0x7ff0000000000000 : f64, dtype = f32} : () -> tensor<f32>
// CHECK-NEXT:     %10 = dhlo.chunk %8, %9 {axes = array<i64: 1>, count = #dhlo.dims<[max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<f32>) -> tensor<?x?x?xf32, #dhlo.dims<[m, max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1), (n + max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1) - 1) floordiv max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>>
// CHECK-NEXT:     %11 = dhlo.chunk %10, %9 {axes = array<i64: 0>, count = #dhlo.dims<[max(min(m, (m*n) floordiv 16384, 256), 1)]>} : (tensor<?x?x?xf32, #dhlo.dims<[m, max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1), (n + max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1) - 1) floordiv max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>>, tensor<f32>) -> tensor<?x?x?x?xf32, #dhlo.dims<[max(min(m, (m*n) floordiv 16384, 256), 1), (m + max(min(m, (m*n) floordiv 16384, 256), 1) - 1) floordiv max(min(m, (m*n) floordiv 16384, 256), 1), max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1), (n + max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1) - 1) floordiv max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>>
// CHECK-NEXT:     %12 = dhlo.reduce %11 {axes = array<i64: 1, 3>, kind = "min"} : (tensor<?x?x?x?xf32, #dhlo.dims<[max(min(m, (m*n) floordiv 16384, 256), 1), (m + max(min(m, (m*n) floordiv 16384, 256), 1) - 1) floordiv max(min(m, (m*n) floordiv 16384, 256), 1), max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1), (n + max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1) - 1) floordiv max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>>) -> tensor<?x?xf32, #dhlo.dims<[max(min(m, (m*n) floordiv 16384, 256), 1), max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>>
// CHECK-NEXT:     %13 = dhlo.reduce %12 {axes = array<i64: 0, 1>, kind = "min"} : (tensor<?x?xf32, #dhlo.dims<[max(min(m, (m*n) floordiv 16384, 256), 1), max(min(n floordiv 16, min((m*n) floordiv 16384, 256) floordiv max(min(m, (m*n) floordiv 16384, 256), 1)), 1)]>>) -> tensor<f32>
// CHECK-NEXT:     func.return %6, %13 : tensor<f32>, tensor<f32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
