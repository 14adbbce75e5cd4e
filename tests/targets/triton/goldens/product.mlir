tile.kernel "k0_contract" symbols ["s0", "s1", "s2"] {
^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s1, s2]>, #dhlo.dims<[1, s1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s2]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0, s2]>, #dhlo.dims<[s2, 1]>>):
  tile.contract %0, %1 into %3 batch <[]> extents <[s0, s2, s1]> : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, !tile.buffer<f32, #dhlo.dims<[s1, s2]>, #dhlo.dims<[1, s1]>>, !tile.buffer<f32, #dhlo.dims<[s0, s2]>, #dhlo.dims<[s2, 1]>> {
  ^bb0(%4: index, %5: index, %6: f32):
    %7 = tile.load %2[%5] : !tile.buffer<f32, #dhlo.dims<[s2]>, #dhlo.dims<[1]>> -> f32
    %8 = arith.addf %6, %7 : f32
    %9 = arith.constant 0.707106769 : f32
    %10 = arith.mulf %8, %9 : f32
    %11 = math.erf %10 : f32
    %12 = arith.constant 5.000000e-01 : f32
    %13 = arith.mulf %8, %12 : f32
    %14 = arith.constant 1.000000e+00 : f32
    %15 = arith.addf %11, %14 : f32
    %16 = arith.mulf %13, %15 : f32
    tile.yield %16 : f32
  }
}
