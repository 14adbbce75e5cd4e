// The sum of every column.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[n]>> {
  %1 = dhlo.reduce %0 {axes = array<i64: 0>} : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?xf32, #dhlo.dims<[n]>>
  func.return %1 : tensor<?xf32, #dhlo.dims<[n]>>
}
