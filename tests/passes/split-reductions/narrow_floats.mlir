// RUN: anyshape opt %s -p split-reductions
// Partial sums of f16 are f32, partial maxima are not; an axis of size 1 goes first.

func.func @main(%0: tensor<?x1x?xf16, #dhlo.dims<[m, n]>>, %1: tensor<100x?xf16, #dhlo.dims<[n]>>, %2: tensor<4x3xf16>) -> (tensor<?xf16, #dhlo.dims<[n]>>, tensor<?xf16, #dhlo.dims<[n]>>, tensor<3xf16>) {
  %3 = dhlo.reduce %0 {axes = array<i64: 0, 1>, kind = "sum"} : (tensor<?x1x?xf16, #dhlo.dims<[m, n]>>) -> tensor<?xf16, #dhlo.dims<[n]>>
  %4 = dhlo.reduce %1 {axes = array<i64: 0>, kind = "max"} : (tensor<100x?xf16, #dhlo.dims<[n]>>) -> tensor<?xf16, #dhlo.dims<[n]>>
  %5 = dhlo.reduce %2 {axes = array<i64: 0>, kind = "sum"} : (tensor<4x3xf16>) -> tensor<3xf16>
  func.return %3, %4, %5 : tensor<?xf16, #dhlo.dims<[n]>>, tensor<?xf16, #dhlo.dims<[n]>>, tensor<3xf16>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x1x?xf16, #dhlo.dims<[m, n]>>, %1: tensor<100x?xf16, #dhlo.dims<[n]>>, %2: tensor<4x3xf16>) -> (tensor<?xf16, #dhlo.dims<[n]>>, tensor<?xf16, #dhlo.dims<[n]>>, tensor<3xf16>) {
// CHECK-NEXT:     %3 = dhlo.reshape %0 {sizes = #dhlo.dims<[m, n]>} : (tensor<?x1x?xf16, #dhlo.dims<[m, n]>>) -> tensor<?x?xf16, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %4 = dhlo.convert %3 {dtype = f32} : (tensor<?x?xf16, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:     %5 = dhlo.constant {value = 0.000000e+00 : f64, dtype = f32} : () -> tensor<f32>
// CHECK-NEXT:     %6 = dhlo.chunk %4, %5 {axes = array<i64: 0>, count = #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1)]>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<f32>) -> tensor<?x?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), (m + max(min((m*n) floordiv 16384, m floordiv 16, 256), 1) - 1) floordiv max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>
// CHECK-NEXT:     %7 = dhlo.reduce %6 {axes = array<i64: 1>} : (tensor<?x?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), (m + max(min((m*n) floordiv 16384, m floordiv 16, 256), 1) - 1) floordiv max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>) -> tensor<?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>
// CHECK-NEXT:     %8 = dhlo.reduce %7 {axes = array<i64: 0>} : (tensor<?x?xf32, #dhlo.dims<[max(min((m*n) floordiv 16384, m floordiv 16, 256), 1), n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
// CHECK-NEXT:     %9 = dhlo.convert %8 {dtype = f16} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?xf16, #dhlo.dims<[n]>>
// CHECK-NEXT:     %10 = dhlo.constant {value = 0xfff0000000000000 : f64, dtype = f16} : () -> tensor<f16>
// CHECK-NEXT:     %11 = dhlo.chunk %1, %10 {axes = array<i64: 0>, count = #dhlo.dims<[max(min((25*n) floordiv 4096, 6), 1)]>} : (tensor<100x?xf16, #dhlo.dims<[n]>>, tensor<f16>) -> tensor<?x?x?xf16, #dhlo.dims<[max(min((25*n) floordiv 4096, 6), 1), (max(min((25*n) floordiv 4096, 6), 1) + 99) floordiv max(min((25*n) floordiv 4096, 6), 1), n]>>
// CHECK-NEXT:     %12 = dhlo.reduce %11 {axes = array<i64: 1>, kind = "max"} : (tensor<?x?x?xf16, #dhlo.dims<[max(min((25*n) floordiv 4096, 6), 1), (max(min((25*n) floordiv 4096, 6), 1) + 99) floordiv max(min((25*n) floordiv 4096, 6), 1), n]>>) -> tensor<?x?xf16, #dhlo.dims<[max(min((25*n) floordiv 4096, 6), 1), n]>>
// CHECK-NEXT:     %13 = dhlo.reduce %12 {axes = array<i64: 0>, kind = "max"} : (tensor<?x?xf16, #dhlo.dims<[max(min((25*n) floordiv 4096, 6), 1), n]>>) -> tensor<?xf16, #dhlo.dims<[n]>>
// CHECK-NEXT:     %14 = dhlo.reduce %2 {axes = array<i64: 0>} : (tensor<4x3xf16>) -> tensor<3xf16>
// CHECK-NEXT:     func.return %9, %13, %14 : tensor<?xf16, #dhlo.dims<[n]>>, tensor<?xf16, #dhlo.dims<[n]>>, tensor<3xf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }
