// Scores scaled, masked by a row for each column, softmaxed: one stitched kernel.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>, %1: tensor<?x?xi1, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %2 = dhlo.constant {dtype = f32, sizes = #dhlo.dims<[m, n]>, value = 1.250000e-01 : f64} : () -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %3 = dhlo.constant {dtype = f32, sizes = #dhlo.dims<[m, n]>, value = -1.000000e+04 : f64} : () -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %4 = dhlo.multiply %0, %2 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %5 = dhlo.select %1, %4, %3 : (tensor<?x?xi1, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %6 = dhlo.softmax %5 {axis = 1 : i64} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %6 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}
