// RUN: anyshape opt %s -p sink-reshapes
// The last axes are equal by the facts only: a broadcast to the other size would be left open, so the reshape stays.

func.func @main(%x: tensor<?x?xf32, #dhlo.dims<[b*s, k]>>, %z: tensor<?xf32, #dhlo.dims<[n]>>, %b: tensor<?xi1, #dhlo.dims<[b]>>, %s: tensor<?xi1, #dhlo.dims<[s]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>> attributes {dhlo.facts = [#dhlo.relation<"k == n">]} {
  %r = dhlo.reshape %x {sizes = #dhlo.dims<[b, s, n]>} : (tensor<?x?xf32, #dhlo.dims<[b*s, k]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
  %w = dhlo.broadcast_in_dim %z {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
  %a = dhlo.add %r, %w : (tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>, tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
  func.return %a : tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%x: tensor<?x?xf32, #dhlo.dims<[b*s, k]>>, %z: tensor<?xf32, #dhlo.dims<[n]>>, %b: tensor<?xi1, #dhlo.dims<[b]>>, %s: tensor<?xi1, #dhlo.dims<[s]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>> attributes {dhlo.facts = [#dhlo.relation<"k == n">]} {
// CHECK-NEXT:     %r = dhlo.reshape %x {sizes = #dhlo.dims<[b, s, n]>} : (tensor<?x?xf32, #dhlo.dims<[b*s, k]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
// CHECK-NEXT:     %w = dhlo.broadcast_in_dim %z {dimensions = array<i64: 2>, sizes = #dhlo.dims<[b, s, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
// CHECK-NEXT:     %a = dhlo.add %r, %w : (tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>, tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>) -> tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
// CHECK-NEXT:     func.return %a : tensor<?x?x?xf32, #dhlo.dims<[b, s, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
