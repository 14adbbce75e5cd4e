builtin.module {
  tile.kernel "k0_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>):
    tile.parallel <[s0, 12*s1]> {
    ^bb0(%3: index, %4: index):
      %5 = tile.scratch : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
      %6 = tile.scratch : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
      %7 = tile.lanes <[s1]> ["max"] -> f32 {
      ^bb0(%8: index):
        %9 = tile.load %1[%3, %4, %8] : !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>> -> f32
        %10 = arith.constant 1.250000e-01 : f32
        %11 = arith.mulf %9, %10 : f32
        %12 = tile.load %0[%3, %8] : !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> i1
        %13 = arith.constant -1.000000e+09 : f32
        %14 = arith.select %12, %11, %13 : f32
        tile.store %14, %5[%8] : f32, !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
        tile.yield %14 : f32
      }
      %15 = tile.lanes <[s1]> ["sum"] -> f32 {
      ^bb0(%16: index):
        %17 = tile.load %5[%16] : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>> -> f32
        %18 = arith.subf %17, %7 : f32
        %19 = math.exp %18 : f32
        tile.store %19, %6[%16] : f32, !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
        tile.yield %19 : f32
      }
      tile.lanes <[s1]> [] {
      ^bb0(%20: index):
        %21 = tile.load %6[%20] : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>> -> f32
        %22 = arith.divf %21, %15 : f32
        tile.store %22, %2[%3, %4, %20] : f32, !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>
        tile.yield
      }
    }
  }
}
