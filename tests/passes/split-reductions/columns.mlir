// RUN: anyshape opt %s -p split-reductions
// Columns, and the columns of a batch: chunks of the reduced axis, as many as the sizes are worth.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>) -> (tensor<?xf32, #dhlo.dims<[n]>>, tensor<?x?xf32, #dhlo.dims<[b, n]>>) {
  %2 = dhlo.reduce %0 {axes = array<i64: 0>, kind = "sum"} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
  %3 = dhlo.reduce %1 {axes = array<i64: 1>, kind = "max"} : (tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[b, n]>>
  func.return %2, %3 : tensor<?xf32, #dhlo.dims<[n]>>, tensor<?x?xf32, #dhlo.dims<[b, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>) -> (tensor<?xf32, #dhlo.dims<[n]>>, tensor<?x?xf32, #dhlo.dims<[b, n]>>) {
// CHECK-NEXT:     %2 = dhlo.constant {value = 0.000000e+00 : f64, dtype = f32} : () -> tensor<f32>
// CHECK-NEXT:     %3 = dhlo.chunk %0, %2 {axes = array<i64: 0>, count = #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1)]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<f32>) -> tensor<?x?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), (m + max(min((m*n) floordiv 16384, m floordiv 16, 256), 1) - 1) floordiv max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>
// CHECK-NEXT:     %4 = dhlo.reduce %3 {axes = array<i64: 1>} : (tensor<?x?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), (m + max(min((m*n) floordiv 16384, m floordiv 16, 256), 1) - 1) floordiv max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>) -> tensor<?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>
// CHECK-NEXT:     %5 = dhlo.reduce %4 {axes = array<i64: 0>} : (tensor<?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
// CHECK-NEXT:     %6 = dhlo.constant {value = 0xfff0000000000000 : f64, dtype = f32} : () -> tensor<f32>
// CHECK-NEXT:     %7 = dhlo.chunk %1, %6 {axes = array<i64: 1>, count = #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1)]>} : (tensor<?x?x?xf32, #dhlo.dims<[b, m, n]>>, tensor<f32>) -> tensor<?x?x?x?xf32, #dhlo.dims<[b, max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), (m + max(min((m*n) floordiv 16384, m floordiv 16, 256), 1) - 1) floordiv max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>
// CHECK-NEXT:     %8 = dhlo.reduce %7 {axes = array<i64: 2>, kind = "max"} : (tensor<?x?x?x?xf32, #dhlo.dims<[b, max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), (m + max(min((m*n) floordiv 16384, m floordiv 16, 256), 1) - 1) floordiv max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>
// CHECK-NEXT:     %9 = dhlo.reduce %8 {axes = array<i64: 1>, kind = "max"} : (tensor<?x?x?xf32, #dhlo.dims<[b, max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>) -> tensor<?x?xf32, #dhlo.dims<[b, n]>>
// CHECK-NEXT:     func.return %5, %9 : tensor<?xf32, #dhlo.dims<[n]>>, tensor<?x?xf32, #dhlo.dims<[b, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
