// A linear layer with bias and GELU: one product with its epilogue.

func.func @main(%0: tensor<?x?xf32, #dhlo.dims<[m, k]>>, %1: tensor<?x?xf32, #dhlo.dims<[n, k]>>, %2: tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>> {
  %3 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<?x?xf32, #dhlo.dims<[m, k]>>, tensor<?x?xf32, #dhlo.dims<[n, k]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %4 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, n]>} : (tensor<?xf32, #dhlo.dims<[n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %5 = dhlo.add %3, %4 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>, tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  %6 = dhlo.gelu %5 : (tensor<?x?xf32, #dhlo.dims<[m, n]>>) -> tensor<?x?xf32, #dhlo.dims<[m, n]>>
  func.return %6 : tensor<?x?xf32, #dhlo.dims<[m, n]>>
}
