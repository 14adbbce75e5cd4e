// RUN: anyshape opt %s -p hoist-scales
// One scale for a weight whose rows are columns of the result, and one that is a constant.

func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, m]>>, %1: tensor<f32>) -> (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) {
  %2 = dhlo.weight {name = "w0", dtype = i8, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xi8>
  %3 = dhlo.convert %2 {dtype = f32} : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %4 = dhlo.broadcast_in_dim %1 {dimensions = array<i64>, sizes = #dhlo.dims<[4, 6]>} : (tensor<f32>) -> tensor<4x6xf32>
  %5 = dhlo.multiply %4, %3 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = dhlo.dot_general %0, %5 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, m]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
  %7 = dhlo.constant {value = 0.25 : f64, dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %8 = dhlo.multiply %3, %7 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %9 = dhlo.dot_general %0, %8 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, m]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
  func.return %6, %9 : tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, m]>>, %1: tensor<f32>) -> (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) {
// CHECK-NEXT:     %2 = dhlo.weight {name = "w0", dtype = i8, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xi8>
// CHECK-NEXT:     %3 = dhlo.convert %2 {dtype = f32} : (tensor<4x6xi8>) -> tensor<4x6xf32>
// CHECK-NEXT:     %4 = dhlo.reshape %1 {sizes = #dhlo.dims<[]>} : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:     %5 = dhlo.broadcast_in_dim %4 {dimensions = array<i64>, sizes = #dhlo.dims<[b, m, 4]>} : (tensor<f32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %6 = dhlo.dot_general %0, %3 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, m]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %7 = dhlo.multiply %6, %5 : (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %8 = dhlo.constant {value = 2.500000e-01 : f64, dtype = f32, sizes = #dhlo.dims<[b, m, 4]>} : () -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %9 = dhlo.dot_general %0, %3 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, m]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     %10 = dhlo.multiply %9, %8 : (tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:     func.return %7, %10 : tensor<?x?x4xf32, #dhlo.dims<[b, m]>>, tensor<?x?x4xf32, #dhlo.dims<[b, m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
