// RUN: anyshape opt %s -p simplify
// A chain of reshapes back to the first sizes.

func.func @main(%0: tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>> {
  %1 = dhlo.reshape %0 {sizes = #dhlo.dims<[b*s, 12]>} : (tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x12xf32, #dhlo.dims<[b*s]>>
  %2 = dhlo.reshape %1 {sizes = #dhlo.dims<[b, s, 3, 4]>} : (tensor<?x12xf32, #dhlo.dims<[b*s]>>) -> tensor<?x?x3x4xf32, #dhlo.dims<[b, s]>>
  %3 = dhlo.reshape %2 {sizes = #dhlo.dims<[b, s, 12]>} : (tensor<?x?x3x4xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
  func.return %3 : tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?x12xf32, #dhlo.dims<[b, s]>>) -> tensor<?x?x12xf32, #dhlo.dims<[b, s]>> {
// CHECK-NEXT:     func.return %0 : tensor<?x?x12xf32, #dhlo.dims<[b, s]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
