// RUN: anyshape opt %s -p sink-reshapes
// A product of flattened rows is one of rows as they were; the axes that it sums over stay merged.

func.func @main(%x: tensor<?x?x4x2xf32, #dhlo.dims<[b, s]>>, %w: tensor<8x8xf32>, %r: tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>> {
  %f = dhlo.reshape %x {sizes = #dhlo.dims<[b*s, 8]>} : (tensor<?x?x4x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
  %p = dhlo.dot_general %f, %w {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x8xf32, #dhlo.dims<[b*s]>>, tensor<8x8xf32>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
  %q = dhlo.reshape %p {sizes = #dhlo.dims<[b, s, 8]>} : (tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  %o = dhlo.add %q, %r : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>, tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
  func.return %o : tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%x: tensor<?x?x4x2xf32, #dhlo.dims<[b, s]>>, %w: tensor<8x8xf32>, %r: tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>> {
// CHECK-NEXT:     %0 = dhlo.reshape %x {sizes = #dhlo.dims<[b, s, 8]>} : (tensor<?x?x4x2xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %1 = dhlo.dot_general %0, %w {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>, tensor<8x8xf32>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %p = dhlo.reshape %1 {sizes = #dhlo.dims<[b*s, 8]>} : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x8xf32, #dhlo.dims<[b*s]>>
// CHECK-NEXT:     %q = dhlo.reshape %p {sizes = #dhlo.dims<[b, s, 8]>} : (tensor<?x8xf32, #dhlo.dims<[b*s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     %o = dhlo.add %q, %r : (tensor<?x?x8xf32, #dhlo.dims<[b, s]>>, tensor<?x?x8xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:     func.return %o : tensor<?x?x8xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
