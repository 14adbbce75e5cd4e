// RUN: anyshape opt %s -p merge-products
// q, k and v with their biases: one product, three slices.

func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>> {
  %1 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %2 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %3 = dhlo.weight {name = "b0", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
  %4 = dhlo.broadcast_in_dim %3 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %5 = dhlo.add %2, %4 : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>, tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %6 = dhlo.reshape %5 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %7 = dhlo.transpose %6 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %8 = dhlo.weight {name = "w1", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %9 = dhlo.dot_general %0, %8 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %10 = dhlo.weight {name = "b1", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
  %11 = dhlo.broadcast_in_dim %10 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %12 = dhlo.add %9, %11 : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>, tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %13 = dhlo.reshape %12 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %14 = dhlo.transpose %13 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %15 = dhlo.weight {name = "w2", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
  %16 = dhlo.dot_general %0, %15 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %17 = dhlo.weight {name = "b2", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
  %18 = dhlo.broadcast_in_dim %17 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %19 = dhlo.add %16, %18 : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>, tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
  %20 = dhlo.reshape %19 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
  %21 = dhlo.transpose %20 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  %22 = dhlo.attention %7, %14, %21 {scale = 5.000000e-01 : f64} : (tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
  func.return %22 : tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x6xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>> {
// CHECK-NEXT:     %1 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %2 = dhlo.weight {name = "w0", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %3 = dhlo.weight {name = "w1", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %4 = dhlo.weight {name = "w2", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %5 = dhlo.concatenate %2, %3, %4 {axis = 0 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<12x6xf32>
// CHECK-NEXT:     %6 = dhlo.dot_general %0, %5 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<12x6xf32>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %7 = dhlo.weight {name = "b0", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %8 = dhlo.weight {name = "b1", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %9 = dhlo.weight {name = "b2", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %10 = dhlo.concatenate %7, %8, %9 {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>
// CHECK-NEXT:     %11 = dhlo.broadcast_in_dim %10 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 12]>} : (tensor<12xf32>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %12 = dhlo.add %6, %11 : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>, tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %13 = dhlo.slice %12 {starts = #dhlo.dims<[0, 0, 0]>, sizes = #dhlo.dims<[b, s, 4]>, strides = array<i64: 1, 1, 1>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %14 = dhlo.slice %12 {starts = #dhlo.dims<[0, 0, 4]>, sizes = #dhlo.dims<[b, s, 4]>, strides = array<i64: 1, 1, 1>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %15 = dhlo.slice %12 {starts = #dhlo.dims<[0, 0, 8]>, sizes = #dhlo.dims<[b, s, 4]>, strides = array<i64: 1, 1, 1>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %16 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %17 = dhlo.weight {name = "b0", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %18 = dhlo.broadcast_in_dim %17 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %19 = dhlo.add %16, %18 : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>, tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %20 = dhlo.reshape %13 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %21 = dhlo.transpose %20 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %22 = dhlo.weight {name = "w1", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %23 = dhlo.dot_general %0, %22 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %24 = dhlo.weight {name = "b1", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %25 = dhlo.broadcast_in_dim %24 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %26 = dhlo.add %23, %25 : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>, tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %27 = dhlo.reshape %14 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %28 = dhlo.transpose %27 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %29 = dhlo.weight {name = "w2", dtype = f32, sizes = #dhlo.dims<[4, 6]>} : () -> tensor<4x6xf32>
// CHECK-NEXT:     %30 = dhlo.dot_general %0, %29 {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<?x?x6xf32, #dhlo.dims<[b, s]>>, tensor<4x6xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %31 = dhlo.weight {name = "b2", dtype = f32, sizes = #dhlo.dims<[4]>} : () -> tensor<4xf32>
// CHECK-NEXT:     %32 = dhlo.broadcast_in_dim %31 {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, 4]>} : (tensor<4xf32>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %33 = dhlo.add %30, %32 : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>, tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x4xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %34 = dhlo.reshape %15 {sizes = #dhlo.dims<[b, s, 2, 2]>} : (tensor<?x?x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %35 = dhlo.transpose %34 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %36 = dhlo.attention %21, %28, %35 {scale = 5.000000e-01 : f64} : (tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>, tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     func.return %36 : tensor<?x2x?x2xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
