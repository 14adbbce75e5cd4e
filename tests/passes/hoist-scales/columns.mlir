// RUN: anyshape opt %s -p hoist-scales
// Scales of columns, written as a row, move behind the product; those of rows, over which the product sums, stay.

func.func @main(%0: tensor<?x6xf32, #dhlo.dims<[m]>>, %1: tensor<1x4xf32>, %2: tensor<6x1xf32>) -> (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>) {
  %3 = dhlo.weight {name = "w0", dtype = i8, sizes = #dhlo.dims<[6, 4]>} : () -> tensor<6x4xi8>
  %4 = dhlo.convert %3 {dtype = f32} : (tensor<6x4xi8>) -> tensor<6x4xf32>
  %5 = dhlo.broadcast_in_dim %1 {dimensions = array<i64: 0, 1>, sizes = #dhlo.dims<[6, 4]>} : (tensor<1x4xf32>) -> tensor<6x4xf32>
  %6 = dhlo.multiply %4, %5 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %7 = dhlo.dot_general %0, %6 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<6x4xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  %8 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 0, 1>, sizes = #dhlo.dims<[6, 4]>} : (tensor<6x1xf32>) -> tensor<6x4xf32>
  %9 = dhlo.multiply %8, %4 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %10 = dhlo.dot_general %0, %9 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<6x4xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  func.return %7, %10 : tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x6xf32, #dhlo.dims<[m]>>, %1: tensor<1x4xf32>, %2: tensor<6x1xf32>) -> (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>) {
// CHECK-NEXT:     %3 = dhlo.weight {name = "w0", dtype = i8, sizes = #dhlo.dims<[6, 4]>} : () -> tensor<6x4xi8>
// CHECK-NEXT:     %4 = dhlo.convert %3 {dtype = f32} : (tensor<6x4xi8>) -> tensor<6x4xf32>
// CHECK-NEXT:     %5 = dhlo.reshape %1 {sizes = #dhlo.dims<[4]>} : (tensor<1x4xf32>) -> tensor<4xf32>
// CHECK-NEXT:     %6 = dhlo.broadcast_in_dim %5 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 4]>} : (tensor<4xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %7 = dhlo.dot_general %0, %4 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<6x4xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %8 = dhlo.multiply %7, %6 : (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %9 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 0, 1>, sizes = #dhlo.dims<[6, 4]>} : (tensor<6x1xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:     %10 = dhlo.multiply %9, %4 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:     %11 = dhlo.dot_general %0, %10 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x6xf32, #dhlo.dims<[m]>>, tensor<6x4xf32>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %8, %11 : tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
