// RUN: anyshape opt %s -p hoist-scales
// Rows of a table are chosen before they are scaled: with a scale for each row, and with one for each column.

func.func @main(%0: tensor<?x?xi64, #dhlo.dims<[b, m]>>, %1: tensor<6x1xf32>, %2: tensor<4xf32>) -> (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) {
  %20 = dhlo.constant {value = 0 : i64, dtype = i64, sizes = #dhlo.dims<[b, m]>} : () -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
  %21 = dhlo.constant {value = 5 : i64, dtype = i64, sizes = #dhlo.dims<[b, m]>} : () -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
  %22 = dhlo.maximum %0, %20 : (tensor<?x?xi64, #dhlo.dims<[b, m]>>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
  %23 = dhlo.minimum %22, %21 : (tensor<?x?xi64, #dhlo.dims<[b, m]>>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
  %3 = dhlo.weight {name = "w0", dtype = i8, sizes = #dhlo.dims<[6, 4]>} : () -> tensor<6x4xi8>
  %4 = dhlo.convert %3 {dtype = f32} : (tensor<6x4xi8>) -> tensor<6x4xf32>
  %5 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 0, 1>, sizes = #dhlo.dims<[6, 4]>} : (tensor<6x1xf32>) -> tensor<6x4xf32>
  %6 = dhlo.multiply %4, %5 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %7 = dhlo.gather %6, %23 {offset_dims = array<i64: 2>, collapsed_slice_dims = array<i64: 0>, start_index_map = array<i64: 0>, index_vector_dim = 2 : i64, slice_sizes = #dhlo.dims<[1, 4]>} : (tensor<6x4xf32>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
  %8 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[6, 4]>} : (tensor<4xf32>) -> tensor<6x4xf32>
  %9 = dhlo.multiply %8, %4 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %10 = dhlo.gather %9, %23 {offset_dims = array<i64: 2>, collapsed_slice_dims = array<i64: 0>, start_index_map = array<i64: 0>, index_vector_dim = 2 : i64, slice_sizes = #dhlo.dims<[1, 4]>} : (tensor<6x4xf32>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
  func.return %7, %10 : tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xi64, #dhlo.dims<[b, m]>>, %1: tensor<6x1xf32>, %2: tensor<4xf32>) -> (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) {
// CHECK-NEXT:     %3 = dhlo.constant {value = 0 : i64, dtype = i64, sizes = #dhlo.dims<[b, m]>} : () -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %4 = dhlo.constant {value = 5 : i64, dtype = i64, sizes = #dhlo.dims<[b, m]>} : () -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %5 = dhlo.maximum %0, %3 : (tensor<?x?xi64, #dhlo.dims<[b, m]>>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %6 = dhlo.minimum %5, %4 : (tensor<?x?xi64, #dhlo.dims<[b, m]>>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?xi64, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %7 = dhlo.weight {name = "w0", dtype = i8, sizes = #dhlo.dims<[6, 4]>} : () -> tensor<6x4xi8>
// CHECK-NEXT:     %8 = dhlo.reshape %1 {sizes = #dhlo.dims<[6]>} : (tensor<6x1xf32>) -> tensor<6xf32>
// CHECK-NEXT:     %9 = dhlo.gather %8, %6 {offset_dims = array<i64>, collapsed_slice_dims = array<i64: 0>, start_index_map = array<i64: 0>, index_vector_dim = 2 : i64, slice_sizes = #dhlo.dims<[1]>} : (tensor<6xf32>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %10 = dhlo.broadcast_in_dim %9 {dimensions = array<i64: 0, 1>, sizes = #dhlo.dims<[b, m, 4]>} : (tensor<?x?xf32, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %11 = dhlo.gather %7, %6 {offset_dims = array<i64: 2>, collapsed_slice_dims = array<i64: 0>, start_index_map = array<i64: 0>, index_vector_dim = 2 : i64, slice_sizes = #dhlo.dims<[1, 4]>} : (tensor<6x4xi8>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xi8, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %12 = dhlo.convert %11 {dtype = f32} : (tensor<?x?x4xi8, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %13 = dhlo.multiply %12, %10 : (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %14 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, m, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %15 = dhlo.gather %7, %6 {offset_dims = array<i64: 2>, collapsed_slice_dims = array<i64: 0>, start_index_map = array<i64: 0>, index_vector_dim = 2 : i64, slice_sizes = #dhlo.dims<[1, 4]>} : (tensor<6x4xi8>, tensor<?x?xi64, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xi8, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %16 = dhlo.convert %15 {dtype = f32} : (tensor<?x?x4xi8, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %17 = dhlo.multiply %16, %14 : (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     func.return %13, %17 : tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
