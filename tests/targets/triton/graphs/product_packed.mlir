// The same layer of 33 inputs and 70 outputs, whose weight may be handed over in panels.

func.func @main(%0: tensor<?x33xf32, #dhlo.dims<[m]>>, %1: tensor<70x33xf32>, %2: tensor<70xf32>) -> tensor<?x70xf32, #dhlo.dims<[m]>> {
  %3 = dhlo.dot_general %0, %1 {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<?x33xf32, #dhlo.dims<[m]>>, tensor<70x33xf32>) -> tensor<?x70xf32, #dhlo.dims<[m]>>
  %4 = dhlo.broadcast_in_dim %2 {dimensions = array<i64: 1>, sizes = #dhlo.dims<[m, 70]>} : (tensor<70xf32>) -> tensor<?x70xf32, #dhlo.dims<[m]>>
  %5 = dhlo.add %3, %4 : (tensor<?x70xf32, #dhlo.dims<[m]>>, tensor<?x70xf32, #dhlo.dims<[m]>>) -> tensor<?x70xf32, #dhlo.dims<[m]>>
  %6 = dhlo.gelu %5 : (tensor<?x70xf32, #dhlo.dims<[m]>>) -> tensor<?x70xf32, #dhlo.dims<[m]>>
  func.return %6 : tensor<?x70xf32, #dhlo.dims<[m]>>
}
