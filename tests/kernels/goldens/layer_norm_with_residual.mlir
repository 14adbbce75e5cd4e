builtin.module {
  tile.kernel "k0_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>>, %4: !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>):
    tile.parallel <[s0*s1]> {
    ^bb0(%5: index):
      %6 = tile.scratch : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>>
      %7 = tile.lanes <[384]> ["sum"] -> f32 {
      ^bb0(%8: index):
        %9 = tile.load %0[%5, %8] : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>> -> f32
        %10 = tile.load %1[%5, %8] : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>> -> f32
        %11 = arith.addf %9, %10 : f32
        tile.store %11, %6[%8] : f32, !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>>
        tile.yield %11 : f32
      }
      %12 = arith.constant 3.840000e+02 : f32
      %13 = arith.divf %7, %12 : f32
      %14 = tile.lanes <[384]> ["sum"] -> f32 {
      ^bb0(%15: index):
        %16 = tile.load %6[%15] : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>> -> f32
        %17 = arith.subf %16, %13 : f32
        %18 = arith.mulf %17, %17 : f32
        tile.yield %18 : f32
      }
      %19 = arith.divf %14, %12 : f32
      %20 = arith.constant 1.000000e-05 : f32
      %21 = arith.addf %19, %20 : f32
      %22 = math.rsqrt %21 : f32
      tile.lanes <[384]> [] {
      ^bb0(%23: index):
        %24 = tile.load %6[%23] : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>> -> f32
        %25 = arith.subf %24, %13 : f32
        %26 = arith.mulf %25, %22 : f32
        %27 = tile.load %2[%23] : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>> -> f32
        %28 = arith.mulf %26, %27 : f32
        %29 = tile.load %3[%23] : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>> -> f32
        %30 = arith.addf %28, %29 : f32
        tile.store %30, %4[%5, %23] : f32, !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>
        tile.yield
      }
    }
  }
}
