// RUN: anyshape opt %s -p simplify
// Of a window of three over an image of one, whose padding the outer points meet, the middle one is left; that is the whole image: a dot.

func.func @main(%0: tensor<?x4x1xf32, #dhlo.dims<[b]>>, %1: tensor<6x4x3xf32>) -> tensor<?x6x1xf32, #dhlo.dims<[b]>> {
  %2 = dhlo.convolution %0, %1 {window_strides = array<i64: 1>, padding = #dhlo.dims<[1]>, lhs_dilation = array<i64: 1>, rhs_dilation = array<i64: 1>, sizes = #dhlo.dims<[1]>} : (tensor<?x4x1xf32, #dhlo.dims<[b]>>, tensor<6x4x3xf32>) -> tensor<?x6x1xf32, #dhlo.dims<[b]>>
  func.return %2 : tensor<?x6x1xf32, #dhlo.dims<[b]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x4x1xf32, #dhlo.dims<[b]>>, %1: tensor<6x4x3xf32>) -> tensor<?x6x1xf32, #dhlo.dims<[b]>> {
// CHECK-NEXT:     %2 = dhlo.slice %1 {starts = #dhlo.dims<[0, 0, 1]>, sizes = #dhlo.dims<[6, 4, 1]>, strides = array<i64: 1, 1, 1>} : (tensor<6x4x3xf32>) -> tensor<6x4x1xf32>
// CHECK-NEXT:     %3 = dhlo.reshape %0 {sizes = #dhlo.dims<[b, 4]>} : (tensor<?x4x1xf32, #dhlo.dims<[b]>>) -> tensor<?x4xf32, #dhlo.dims<[b]>>
// CHECK-NEXT:     %4 = dhlo.reshape %2 {sizes = #dhlo.dims<[6, 4]>} : (tensor<6x4x1xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:     %5 = dhlo.dot_general %3, %4 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<?x4xf32, #dhlo.dims<[b]>>, tensor<6x4xf32>) -> tensor<?x6xf32, #dhlo.dims<[b]>>
// CHECK-NEXT:     %6 = dhlo.reshape %5 {sizes = #dhlo.dims<[b, 6, 1]>} : (tensor<?x6xf32, #dhlo.dims<[b]>>) -> tensor<?x6x1xf32, #dhlo.dims<[b]>>
// CHECK-NEXT:     func.return %6 : tensor<?x6x1xf32, #dhlo.dims<[b]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
