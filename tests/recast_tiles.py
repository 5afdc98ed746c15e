"""A navmesh of several tiles made by Recast, and what Detour answers on it.

Made by recast-navigation 0.43.1 (Recast and Detour compiled to WebAssembly) from ``furnished.furnished()`` with cells
of 0.05 m, tiles of 40 cells and an agent of 0.1 m; see ``test_detour_tiles``.
"""

import base64
import zlib

# fmt: off
_FILE = (
    'c-rNd&ub(_6vtov=*}b?*ZkNl2nvca?7hQ+2X}fg${t1u7-WPTatKWhdtMM0?2{+|fK5*R0p9ka2c0=BdzcZ$f5D^w!75|Ds(MwgYC7Y@)gU-'
    '9>2Ia0d#d02)T?jx(FdP=BmiI&@Y7E00ct$f_}#K?ZJQ5F$4~Ene6R+KAK`oTyvC38UphaVP6y`u-fTL&m;KhHX}+xI^Do8#U*B(<M-'
    '$&?jOTLQG<PS|2et6OAVIm`ZJ~|h!ciT-'
    '+<Z(w^F5@&&GDevGias@rc0*zv*SIJAV|EQ+y)^FWg?;Aj`@2Bx<3a=JjF}L6IeXkipP`3@cDH3L#{D~JhmP2#L=`dp0#~;r7?y_*Ah>#@qA}V'
    'JRiWfGR9M8XK`E`=DWkj*kfZ+i+ommF7SB%Y|c{*_p7G^(ii97Sv{M6g{;=O#@N!esV*l!PKWl|s!~ip9aEp#^qX;E$Gq-y10grk{-'
    '?0<UNb!~Z#qx{t@7uU%|mJWXddD)PlSmf=0MN!|50OX@lIk6p^vnBXs=gxUX9%SJO@0lJ*L;0-'
    'eCF$)0<4c!t_n1UuAlW>Fs4aDRxkdMTx8`!<iC7szNHUtw3nQcOfKfO9h2y^Z5nFCA4>K4EXs!%=xX*?)$migE!%gCHxNIS5^;Hc2@eaZnB(dH'
    'pk>*J*ZhdsIz(y*sQ9zgKnCB9a;W-LHjxpv<g*1`}yrE1@S2Tyr=qw6+{Hyl;tNfHe_5m-'
    'pp+cSI4fu=W3NYa#h}zaw6<+BLf0?kRbM4E$W9{^EQn@nO~#aFMbZ;_iQZ{9l5@_a;|ADb!#N%T0lF<*3v=Kd>C|9z3=ONGl;c6YP=U;hjmyJi'
    'lpvP?ND}Hkpvt}*$P%$4nuyyYh`t9pIw%2EphCiK1tS<e=66P)t0WcCmdv8Ak+h8e>u)~*WL{b#PgRia0HLD^<QM`f8ob27?yv%{v!i!{U-'
    ')^erMC)#>4>g0$eAaOENE@L*~oY&E+EGRa-A`;Ko_vyghZ#<nwn`FR)5pyXLLUj|MH3F5F#~d4>@@&pd<Z@C>(DJuX-B3^s-'
    '}&jIrc1FE51KRJKx9(jqM%>B5p;C{pRH~E@=Px|8gGvh;k8RQ!K6p53=q2Y7N;N{%<&1S91Ekyy(Yx}%w-'
    'gmg`A@K|&Hm^r)UVG1A=k;+&nKatx%`kFi$EE&5o?(aS-'
    '7D0Gz<6h^a2{6snsAGG2!PiupX3pwKaVx#Eu&m}CwPq8OZODV3D4@Kc_t5GYf7Efl)x?LnfV5;6K_EpIp;h#&Fuw^Jaf*A;3>k&*veKWygHs`M'
    'sr-J5}qO5+X&C6WB52>+xF4O@QCeyhVK5B^M`Ja_CMj-Jyk#Oe8abiXRti?1J7W2E(6bCdG0Ua`6ThgknQWP?umm>8jw#iXw`g;yf}Zij(WW&&'
    't&#!HTO@cuX+@&l?y(o3{Hvo<30*9K81Pa$lpognIP2DQ@ZB*Jn_nYsL%Y+j%|}4+FR;}PGMiBekjj%&vP!>vo6{Huv|Mow3zGlI?Frc8t)n3l'
    'RQg26ZcZ2_bXLvAN%N<Y<;mD2s3JB$L)6FU286SCyakFcX1&eg!jb4zjul2>si=`Ux!z|tOhMGqdV$IVZ50xtUn`mAY%vH8@}x>B_FqU2|H(Sl'
    'KD89t$U?sN3o%;;Nu45<03n4MO={fywthI>$&fX?|YsNbhbA}Miko{7nv_ZLiqX8*O`Lu(8{EaND~vP9b5y`!gC`$XOXQ@vZg6kYp$Ik!44v=L'
    'AV#kZ@L~iZe9eAbl|9qGisB+a_x;vID449vsD>qf8(8P&1zJ}S>%a)6xaDaB7bM=n9*&{gYzuTkGnnhzx&SC`GJ0CH2(yANrS='
)
# Start [3], end [3] and the length of the path between them.
PATHS = [
    [-3.85000, 0.20000, -2.21077, 2.07748, 0.20000, 0.14354, 7.99896],
    [0.28954, 0.20000, -1.35746, -3.62364, 0.20000, 1.07319, 7.44295],
    [1.43437, 0.20000, 2.60816, -0.93198, 0.20000, 0.11650, 3.55659],
    [2.64772, 0.20000, -2.79257, -3.57231, 0.20000, 0.17820, 9.05648],
    [1.36920, 0.20000, -2.85000, -0.93267, 0.20000, -2.59895, 9.17815],
    [-0.66011, 0.20000, 1.12064, 0.71181, 0.20000, 2.58262, 2.00489],
    [2.76934, 0.20000, 0.16157, -3.26428, 0.20000, 0.92351, 7.58945],
    [-0.67201, 0.20000, 1.20714, 3.28257, 0.20000, 1.57319, 4.07222],
    [-1.90038, 0.20000, -2.71521, 1.88866, 0.20000, -1.10000, 8.37267],
    [1.06111, 0.20000, 1.53846, 3.90000, 0.20000, -0.80797, 3.68308],
    [-2.02369, 0.20000, 2.89530, 1.78128, 0.20000, 1.52014, 4.04585],
    [1.21215, 0.20000, -2.56388, 1.05308, 0.20000, 2.30824, 4.87472],
    [-1.81832, 0.20000, -0.38153, 2.15452, 0.20000, 0.13712, 5.34390],
    [-2.09780, 0.20000, -1.35056, -1.12588, 0.20000, -2.00096, 1.16947],
    [-0.10786, 0.20000, 2.38594, 3.27366, 0.20000, -2.63661, 6.20304],
    [3.23722, 0.20000, 0.02714, 0.20000, 0.20000, -1.08580, 3.67020],
    [3.89314, 0.20000, -0.03614, -1.87084, 0.20000, -2.45560, 8.79271],
    [3.58211, 0.20000, -2.55751, 0.20000, 0.20000, -0.69515, 3.86097],
    [-1.78335, 0.20000, 2.48290, 0.23798, 0.20000, -0.21333, 3.95553],
    [3.52784, 0.20000, -2.69950, 2.09211, 0.20000, 1.62123, 4.55302],
    [2.62254, 0.20000, -2.24781, -3.85000, 0.20000, 1.13073, 9.17791],
    [2.94598, 0.20000, 0.77726, 1.88980, 0.20000, 1.35247, 1.20266],
    [3.90000, 0.20000, 2.33143, -2.13444, 0.20000, -1.16207, 7.50542],
    [-1.19188, 0.20000, 0.07964, 0.72891, 0.20000, 2.07589, 2.84107],
]
# fmt: on


def tiled_file() -> bytes:
    """The bytes of the file."""
    return zlib.decompress(base64.b85decode(_FILE))
