// RUN: anyshape opt %s -p simplify
// m == n is a fact: what is computed has sizes in one of the two; the arguments keep the sizes that callers pass.

func.func @main(%0: tensor<?x4xf32, #dhlo.dims<[m]>>, %1: tensor<?x4xf32, #dhlo.dims<[n]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>> attributes {dhlo.facts = [#dhlo.relation<"m == n">]} {
  %2 = dhlo.reshape %1 {sizes = #dhlo.dims<[m, 4]>} : (tensor<?x4xf32, #dhlo.dims<[n]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  %3 = dhlo.abs %2 : (tensor<?x4xf32, #dhlo.dims<[m]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  %4 = dhlo.add %0, %3 : (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
  func.return %4 : tensor<?x4xf32, #dhlo.dims<[m]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x4xf32, #dhlo.dims<[m]>>, %1: tensor<?x4xf32, #dhlo.dims<[n]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>> attributes {dhlo.facts = [#dhlo.relation<"m == n">]} {
// CHECK-NEXT:     %2 = dhlo.reshape %1 {sizes = #dhlo.dims<[m, 4]>} : (tensor<?x4xf32, #dhlo.dims<[n]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %3 = dhlo.abs %2 : (tensor<?x4xf32, #dhlo.dims<[m]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     %4 = dhlo.add %0, %3 : (tensor<?x4xf32, #dhlo.dims<[m]>>, tensor<?x4xf32, #dhlo.dims<[m]>>) -> tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:     func.return %4 : tensor<?x4xf32, #dhlo.dims<[m]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
