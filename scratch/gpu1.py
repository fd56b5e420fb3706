import sys,os,time,itertools,dataclasses
sys.path.insert(0,os.getcwd())
from concurrent.futures import ThreadPoolExecutor
import numpy as np, cupy as cp, torch
import mansard as ms
from mansard import testing
from mansard.families.gram import spec, space, defaults, emit
from mansard.backends import cuda
from mansard.compile import nvrtc
from mansard.tune.measure import measure
be=cuda.backend(0); print(be.device, be.driver.version(), nvrtc._library().version, nvrtc._library().path)
st=lambda x: tuple(s//x.itemsize for s in x.strides)
def kern(p,c,A,B,C): return emit.kernel(p,c,be.device,(*st(A),*st(B),*st(C)))
def sets(seed,n):
    rng=np.random.default_rng(seed); out=[]
    while len(out)<n:
        dt=str(rng.choice(["float64","complex128","float32","complex64"]))
        M,N=int(rng.integers(1,72)),int(rng.integers(1,72)); same=bool(rng.random()<.3)
        if same: N=M
        K=int(rng.choice([1,3,17,257,4099,20011]))
        la,lb=(str(x) for x in rng.choice(["row","row","row","col","any"],2))
        if same: lb=la
        pa=(M if la=="row" else K)+int(rng.choice([0,0,1,2])); pb=(N if lb=="row" else K)+int(rng.choice([0,0,1,2]))
        if same: pb=pa
        p=spec.problem(dt,M,N,K,layout_a=la,layout_b=lb,pitch_a=pa,pitch_b=pb,aligned=bool(rng.random()<.8),same=same,conj=bool(rng.random()<.7),deterministic=False)
        v=rng.choice(["ring","ring","fragment","tiled"])
        gen={"ring":space._ring_candidates,"fragment":space._fragment_candidates,"tiled":space._tiled_candidates}[str(v)](p)
        cs=[c for c in itertools.islice(gen,int(rng.integers(300)),None,int(rng.integers(137,997))) if space.illegal(p,c,be.device) is None]
        if not cs: continue
        c=cs[int(rng.integers(len(cs)))]
        if rng.random()<.3: c=dataclasses.replace(c,REDUCE=str(rng.choice(["sliced","ticket","block","atomic"])))
        if v=="ring" and rng.random()<.3: c=dataclasses.replace(c,KSTEP=int(rng.choice([8,16])))
        if space.illegal(p,c,be.device): continue
        out.append((p,c))
    return out
t=time.time(); S=sets(7,int(sys.argv[1])); print("sets",time.time()-t)
pool=ThreadPoolExecutor(16)
def comp(pc):
    try: return nvrtc.compile_cuda(emit.source(*pc,"cuda"),be.device.arch)
    except Exception as e: return e
t=time.time(); R=list(pool.map(comp,S)); print("compiled",len(S),time.time()-t,"fail",sum(isinstance(r,Exception) for r in R))
sp=[(nvrtc.resources(r.log),pc) for r,pc in zip(R,S) if not isinstance(r,Exception)]
print("spilling",sum(r.spill_bytes>0 for r,_ in sp))
bad=0
for p,c in S:
    A,B=testing.operands(p,"cuda",integers=True); C=cp.full((p.M,p.N),np.nan,p.dtype)
    try:
        L=be.prepare(kern(p,c,A,B,C)); L((A.data.ptr,B.data.ptr,C.data.ptr),(1.,0.,0.,0.),0); be.synchronize()
        C2=cp.full((p.M,p.N),np.nan,p.dtype); L((A.data.ptr,B.data.ptr,C2.data.ptr),(1.,0.,0.,0.),0); be.synchronize()
    except Exception as e: print("EXC",p,c,str(e)[:300]); bad+=1; break
    ref=spec.reference(A,B,conj=p.conj)
    if not bool((C==ref).all()) or not bool((C2==ref).all()): print("WRONG",p,c); bad+=1
print("checked",len(S),"bad",bad,flush=True)
# timing
n=2**28
X={"float64":cp.random.default_rng(1).standard_normal(n),"float32":cp.random.default_rng(1).standard_normal(2*n,dtype="float32")}
Y={"float64":cp.random.default_rng(2).standard_normal(n),"float32":cp.random.default_rng(2).standard_normal(2*n,dtype="float32")}
src=r'''extern "C" __global__ void __launch_bounds__(1024,2) rd(const double2* x,double* o,long long n){ double s=0; long long T=(long long)gridDim.x*blockDim.x; long long i=(long long)blockIdx.x*blockDim.x+threadIdx.x;
 for(;i+3*T<n;i+=4*T){ double2 a=__ldcs(x+i),b=__ldcs(x+i+T),c=__ldcs(x+i+2*T),d=__ldcs(x+i+3*T); s+=a.x+a.y+b.x+b.y+c.x+c.y+d.x+d.y; } if(s==1.2345) *o=s; }'''
rd=cp.RawKernel(src,'rd'); o=cp.zeros(1)
tm=measure(lambda: rd((264,),(1024,),(X["float64"],o,np.int64(n//2))),be,repeats=11)
READ=n*8/tm.median; print("read GB/s",READ/1e9,flush=True)
cand=[]
def add(dt,M,c,N=None,**kw): cand.append((spec.problem(dt,M,N or M,(2**28 if dt in("float64","float32") else 2**27)//max(M,N or M),**kw),c))
for dt in ("float64","complex128","float32","complex64"):
    for M in (1,2,3,4,5,7,8,12,15,16,17,20,24,31,32,33,40,47,48,50,56,63,64):
        p=spec.problem(dt,M,M,1<<22); seen=0; last=None
        for c in defaults.ranked(p,be.device):
            if space.illegal(p,c,be.device): continue
            k=(c.VARIANT,getattr(c,"WARPS_M",0),getattr(c,"WARPS_N",0),getattr(c,"GROUPS",0),getattr(c,"SHIFT",0),getattr(c,"ROWS",0))
            if k==last: continue
            last=k
            if c.VARIANT!="ring": break
            add(dt,M,c); seen+=1
            if seen>=3: break
t=time.time(); list(pool.map(comp,cand)); print("compiled",len(cand),time.time()-t,flush=True)
lib=cp
for p,c in cand:
    real="float32" if p.dtype in("float32","complex64") else "float64"
    A=X[real].view(p.dtype)[:p.K*p.M].reshape(p.K,p.M); B=Y[real].view(p.dtype)[:p.K*p.N].reshape(p.K,p.N); C=cp.empty((p.M,p.N),p.dtype)
    try:
        L=be.prepare(kern(p,c,A,B,C)); f=lambda: L((A.data.ptr,B.data.ptr,C.data.ptr),(1.,0.,0.,0.),0)
        tm=measure(f,be,repeats=5,warmup=1)
    except Exception as e: print("EXC",p,c,str(e)[:200]); continue
    gb=p.K*(p.M+p.N)*p.itemsize/tm.median
    print(f"{p.dtype:10s} {p.M:3d} {100*gb/READ:5.1f}% {gb/1e9:6.0f} "+" ".join(f"{k}{v}" for k,v in dataclasses.asdict(c).items()),flush=True)
# overhead
for xp in ("cupy","torch"):
    for K,M in ((10000,4),(10000,16),(10000,64),(100000,16)):
        if xp=="cupy": a=cp.random.standard_normal((K,M)); b=cp.random.standard_normal((K,M))
        else: a=torch.randn(K,M,dtype=torch.float64,device="cuda"); b=torch.randn(K,M,dtype=torch.float64,device="cuda")
        out=ms.gram(a,b); pl=ms.plan("gram",a,b)
        def host(f,n=300):
            f(); torch.cuda.synchronize(); best=[]
            for _ in range(5):
                t=time.perf_counter()
                for _ in range(n): f()
                h=time.perf_counter()-t; torch.cuda.synchronize(); d=time.perf_counter()-t; best.append((h/n*1e6,d/n*1e6))
            return "host %.1f total %.1f us"%sorted(best)[2]
        print(xp,K,M,"gram",host(lambda: ms.gram(a,b)),"| plan",host(lambda: pl(a,b)),"| lib",host(lambda: a.T@b))
