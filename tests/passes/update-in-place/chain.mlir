// RUN: anyshape opt %s -p update-in-place
// Result 1 lies in argument 0: both updates on the way are written there. The other update makes a tensor of its own.

func.func @main(%0: tensor<?x4xf32, #dhlo.dims<[s + 2]>>, %1: tensor<?x4xf32, #dhlo.dims<[s]>>, %2: tensor<?x4xf32, #dhlo.dims<[s + 2]>>) -> (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s + 2]>>) attributes {dhlo.updates = array<i64: 1, 0>} {
  %3 = dhlo.dynamic_update_slice %0, %1 {starts = #dhlo.dims<[0, 0]>} : (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s]>>) -> tensor<?x4xf32, #dhlo.dims<[s + 2]>>
  %4 = dhlo.dynamic_update_slice %2, %1 {starts = #dhlo.dims<[1, 0]>} : (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s]>>) -> tensor<?x4xf32, #dhlo.dims<[s + 2]>>
  %5 = dhlo.dynamic_update_slice %3, %1 {starts = #dhlo.dims<[1, 0]>} : (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s]>>) -> tensor<?x4xf32, #dhlo.dims<[s + 2]>>
  func.return %4, %5 : tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s + 2]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x4xf32, #dhlo.dims<[s + 2]>>, %1: tensor<?x4xf32, #dhlo.dims<[s]>>, %2: tensor<?x4xf32, #dhlo.dims<[s + 2]>>) -> (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s + 2]>>) attributes {dhlo.updates = array<i64: 1, 0>} {
// CHECK-NEXT:     %3 = dhlo.dynamic_update_slice %0, %1 {starts = #dhlo.dims<[0, 0]>, in_place = true} : (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s]>>) -> tensor<?x4xf32, #dhlo.dims<[s + 2]>>
// CHECK-NEXT:     %4 = dhlo.dynamic_update_slice %2, %1 {starts = #dhlo.dims<[1, 0]>} : (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s]>>) -> tensor<?x4xf32, #dhlo.dims<[s + 2]>>
// CHECK-NEXT:     %5 = dhlo.dynamic_update_slice %3, %1 {starts = #dhlo.dims<[1, 0]>, in_place = true} : (tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s]>>) -> tensor<?x4xf32, #dhlo.dims<[s + 2]>>
// CHECK-NEXT:     func.return %4, %5 : tensor<?x4xf32, #dhlo.dims<[s + 2]>>, tensor<?x4xf32, #dhlo.dims<[s + 2]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
