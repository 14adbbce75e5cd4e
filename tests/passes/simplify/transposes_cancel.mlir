// RUN: anyshape opt %s -p simplify
// Two transposes that cancel, then a multiplication by one: nothing is left.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %1 = dhlo.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[n, m]>>
  %2 = dhlo.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<?x?xf32, #dhlo.dims<[n, m]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %3 = dhlo.constant {value = 1.000000e+00 : f64, dtype = f32, sizes = #dhlo.dims<[m, n]>} : () -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %4 = dhlo.multiply %2, %3 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %4 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}

// CHECK: builtin.module {
// CHECK-NEXT:   func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
// CHECK-NEXT:     func.return %0 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
// CHECK-NEXT:   }
// CHECK-NEXT: }
