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
      %20 = arith.constant 1.000000e+00 : f32
      %21 = arith.divf %20, %15 : f32
      tile.lanes <[s1]> [] {
      ^bb0(%22: index):
        %23 = tile.load %6[%22] : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>> -> f32
        %24 = arith.mulf %23, %21 : f32
        tile.store %24, %2[%3, %4, %22] : f32, !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>
        tile.yield
      }
    }
  }
  tile.kernel "k1_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[12*s1*max((s1 + 4095) floordiv 4096, 1), max((s1 + 4095) floordiv 4096, 1), 1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[12*s1*max((s1 + 4095) floordiv 4096, 1), max((s1 + 4095) floordiv 4096, 1), 1]>>):
    tile.parallel <[s0, 12*s1, max((s1 + 4095) floordiv 4096, 1)]> {
    ^bb0(%4: index, %5: index, %6: index):
      %7 = tile.size <[4096]>
      %8 = tile.size <[s1]>
      %9 = arith.constant 0xff800000 : f32
      %10 = tile.lanes <[4096]> ["max"] -> f32 {
      ^bb0(%11: index):
        %12 = arith.muli %6, %7 : index
        %13 = arith.addi %12, %11 : index
        %14 = arith.cmpi ult, %13, %8 : index
        %15 = tile.load %1[%4, %5, %13] guard %14 : !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>> -> f32
        %16 = arith.constant 1.250000e-01 : f32
        %17 = arith.mulf %15, %16 : f32
        %18 = tile.load %0[%4, %13] guard %14 : !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> i1
        %19 = arith.constant -1.000000e+09 : f32
        %20 = arith.select %18, %17, %19 : f32
        %21 = arith.select %14, %20, %9 : f32
        tile.yield %21 : f32
      }
      %22 = math.absf %10 : f32
      %23 = arith.constant 0x7f800000 : f32
      %24 = arith.cmpf oeq, %22, %23 : f32
      %25 = arith.constant 0.000000e+00 : f32
      %26 = arith.select %24, %25, %10 : f32
      %27 = tile.lanes <[4096]> ["sum"] -> f32 {
      ^bb0(%28: index):
        %29 = arith.muli %6, %7 : index
        %30 = arith.addi %29, %28 : index
        %31 = arith.cmpi ult, %30, %8 : index
        %32 = tile.load %1[%4, %5, %30] guard %31 : !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>> -> f32
        %33 = arith.constant 1.250000e-01 : f32
        %34 = arith.mulf %32, %33 : f32
        %35 = tile.load %0[%4, %30] guard %31 : !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> i1
        %36 = arith.constant -1.000000e+09 : f32
        %37 = arith.select %35, %34, %36 : f32
        %38 = arith.select %31, %37, %9 : f32
        %39 = arith.subf %38, %26 : f32
        %40 = math.exp %39 : f32
        tile.yield %40 : f32
      }
      tile.store %27, %2[%4, %5, %6] : f32, !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[12*s1*max((s1 + 4095) floordiv 4096, 1), max((s1 + 4095) floordiv 4096, 1), 1]>>
      tile.store %10, %3[%4, %5, %6] : f32, !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[12*s1*max((s1 + 4095) floordiv 4096, 1), max((s1 + 4095) floordiv 4096, 1), 1]>>
    }
  }
  tile.kernel "k2_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[12*s0*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[12*s0*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[12*s0*s1]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[12*s0*s1]>, #dhlo.dims<[1]>>):
    tile.parallel <[12*s0*s1]> {
    ^bb0(%4: index):
      %5 = tile.lanes <[max((s1 + 4095) floordiv 4096, 1)]> ["max"] -> f32 {
      ^bb0(%6: index):
        %7 = tile.load %0[%4, %6] : !tile.buffer<f32, #dhlo.dims<[12*s0*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>> -> f32
        tile.yield %7 : f32
      }
      %8 = tile.lanes <[max((s1 + 4095) floordiv 4096, 1)]> ["sum"] -> f32 {
      ^bb0(%9: index):
        %10 = tile.load %0[%4, %9] : !tile.buffer<f32, #dhlo.dims<[12*s0*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>> -> f32
        %11 = arith.subf %10, %5 : f32
        %12 = math.exp %11 : f32
        %13 = tile.load %1[%4, %9] : !tile.buffer<f32, #dhlo.dims<[12*s0*s1, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>> -> f32
        %14 = arith.mulf %13, %12 : f32
        tile.yield %14 : f32
      }
      tile.store %8, %2[%4] : f32, !tile.buffer<f32, #dhlo.dims<[12*s0*s1]>, #dhlo.dims<[1]>>
      tile.store %5, %3[%4] : f32, !tile.buffer<f32, #dhlo.dims<[12*s0*s1]>, #dhlo.dims<[1]>>
    }
  }
  tile.kernel "k3_flat" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1]>, #dhlo.dims<[12*s1, 1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1]>, #dhlo.dims<[12*s1, 1]>>, %4: !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>):
    tile.parallel <[s0, 12*s1, s1]> {
    ^bb0(%5: index, %6: index, %7: index):
      %8 = tile.load %1[%5, %6, %7] : !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>> -> f32
      %9 = arith.constant 1.250000e-01 : f32
      %10 = arith.mulf %8, %9 : f32
      %11 = tile.load %0[%5, %7] : !tile.buffer<i1, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> i1
      %12 = arith.constant -1.000000e+09 : f32
      %13 = arith.select %11, %10, %12 : f32
      %14 = tile.load %2[%5, %6] : !tile.buffer<f32, #dhlo.dims<[s0, 12*s1]>, #dhlo.dims<[12*s1, 1]>> -> f32
      %15 = arith.subf %13, %14 : f32
      %16 = math.exp %15 : f32
      %17 = arith.constant 1.000000e+00 : f32
      %18 = tile.load %3[%5, %6] : !tile.buffer<f32, #dhlo.dims<[s0, 12*s1]>, #dhlo.dims<[12*s1, 1]>> -> f32
      %19 = arith.divf %17, %18 : f32
      %20 = arith.mulf %16, %19 : f32
      tile.store %20, %4[%5, %6, %7] : f32, !tile.buffer<f32, #dhlo.dims<[s0, 12*s1, s1]>, #dhlo.dims<[12*s1*s1, s1, 1]>>
    }
  }
}
