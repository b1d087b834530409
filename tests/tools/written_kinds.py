"""Models as people write them: networks of many fields, with the loops, lists and branches that TorchScript allows."""
import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class UNetDiffusion(nn.Module):
    class Res(nn.Module):
        def __init__(self, i, o, t):
            super().__init__()
            self.n1, self.c1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
            self.t = nn.Linear(t, o)
            self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
            self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            h = self.c1(F.silu(self.n1(x)))
            h = h + self.t(F.silu(t))[:, :, None, None]
            return self.c2(F.silu(self.n2(h))) + self.skip(x)

    class Attn(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.n, self.qkv, self.o = nn.GroupNorm(4, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

        def forward(self, x):
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.n(x)).reshape(b, 3, 4, c // 4, h * w).unbind(1)
            a = torch.softmax(torch.einsum("bhci,bhcj->bhij", q, k) / math.sqrt(c // 4), -1)
            return x + self.o(torch.einsum("bhij,bhcj->bhci", a, v).reshape(b, c, h, w))

    def __init__(self):
        super().__init__()
        R, A = UNetDiffusion.Res, UNetDiffusion.Attn
        self.inp = nn.Conv2d(3, 16, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.d1, self.down, self.d2, self.a2 = R(16, 16, 32), nn.Conv2d(16, 16, 3, 2, 1), R(16, 32, 32), A(32)
        self.m1, self.ma, self.m2 = R(32, 32, 32), A(32), R(32, 32, 32)
        self.u2, self.up, self.u1 = R(64, 32, 32), nn.ConvTranspose2d(32, 16, 2, 2), R(32, 16, 32)
        self.out = nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, x, t):
        f = torch.exp(-math.log(10000.0) * torch.arange(8, device=x.device) / 8)
        e = t[:, None].float() * f[None]
        e = self.time(torch.cat([e.sin(), e.cos()], -1))
        h1 = self.d1(self.inp(x), e)
        h2 = self.a2(self.d2(self.down(h1), e))
        m = self.m2(self.ma(self.m1(h2, e)), e)
        u = self.up(self.u2(torch.cat([m, h2], 1), e))
        return self.out(self.u1(torch.cat([u, h1], 1), e))


class VqVae(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 4, 2, 1))
        self.book = nn.Parameter(torch.randn(20, 8))
        self.dec = nn.Sequential(nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x):
        z = self.enc(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, 8)
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.book.t() + self.book.pow(2).sum(1)
        idx = d.argmin(1)
        q = F.embedding(idx, self.book).view_as(z)
        q = z + (q - z).detach()
        hot = F.one_hot(idx, 20).float().mean(0)
        perplexity = torch.exp(-(hot * (hot + 1e-10).log()).sum())
        return self.dec(q.permute(0, 3, 1, 2)), idx.view(x.shape[0], -1), perplexity


class RealNvp(nn.Module):
    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList([nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.1), nn.Linear(16, 6)) for _ in range(4)])
        self.register_buffer("prior", torch.zeros(6))

    def forward(self, x):
        logdet = torch.zeros(x.shape[0])
        for i, net in enumerate(self.nets):
            a, b = x.chunk(2, -1)
            if i % 2 == 1:
                a, b = b, a
            s, t = net(a).chunk(2, -1)
            s = torch.tanh(s)
            b = b * s.exp() + t
            logdet = logdet + s.sum(-1)
            x = torch.cat([b, a] if i % 2 == 1 else [a, b], -1)
        lp = -0.5 * ((x - self.prior) ** 2 + math.log(2 * math.pi)).sum(-1)
        return x, lp + logdet


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        self.ls = nn.ModuleList([nn.Linear(20, 32), nn.Linear(32, 32), nn.Linear(52, 32)])
        self.o = nn.Linear(32, 4)

    def forward(self, o, d, near: float, far: float):
        t = torch.linspace(0, 1, 8) * (far - near) + near
        p = o[:, None] + d[:, None] * t[:, None]
        fr = 2.0 ** torch.arange(3)
        e = torch.cat([p, (p[..., None] * fr).sin().flatten(-2), (p[..., None, :] * fr[:, None]).cos().flatten(-2),
                       p.norm(dim=-1, keepdim=True), torch.ones_like(p[..., :1])], -1)
        h = e
        for i, l in enumerate(self.ls):
            h = torch.sin(30 * l(h if i != 2 else torch.cat([h, e], -1)))
        rgbs = self.o(h)
        sigma, rgb = F.softplus(rgbs[..., 3]), rgbs[..., :3].sigmoid()
        delta = torch.cat([t[1:] - t[:-1], torch.full((1,), 1e10)])
        alpha = 1 - torch.exp(-sigma * delta)
        T = torch.cumprod(torch.cat([torch.ones(alpha.shape[0], 1), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        w = alpha * T
        return (w[..., None] * rgb).sum(1), (w * t).sum(1), w.sum(-1)


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(10, 16), nn.Linear(16, 4)
        self.beta = 0.9

    def forward(self, x):
        m1, m2 = torch.zeros(x.shape[1], 16), torch.zeros(x.shape[1], 4)
        out = []
        for t in range(x.shape[0]):
            m1 = self.beta * m1 + self.a(x[t])
            s1 = (m1 > 1.0).to(x.dtype)
            m1 = m1 - s1
            m2 = self.beta * m2 + self.b(s1)
            s2 = (m2 > 1.0).to(x.dtype)
            m2 = torch.where(s2 > 0, torch.zeros_like(m2), m2)
            out.append(s2)
        return torch.stack(out).sum(0), m2


class Capsules(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 5, 2)
        self.w = nn.Parameter(torch.randn(1, 72, 5, 6, 8) * 0.1)

    def squash(self, x):
        n = (x ** 2).sum(-1, keepdim=True)
        return n / (1 + n) * x / torch.sqrt(n + 1e-8)

    def forward(self, x):
        u = self.squash(F.relu(self.conv(x)).reshape(x.shape[0], -1, 8))
        hat = (self.w @ u[:, :, None, :, None]).squeeze(-1)
        b = torch.zeros(x.shape[0], hat.shape[1], 5)
        v = torch.zeros(x.shape[0], 5, 6)
        for r in range(3):
            c = F.softmax(b, 2)
            v = self.squash((c[..., None] * hat).sum(1))
            if r < 2:
                b = b + (hat * v[:, None]).sum(-1)
        return v.norm(dim=-1)


class Kan(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 12).expand(6, -1).contiguous())
        self.coef, self.base = nn.Parameter(torch.randn(5, 6, 8) * 0.1), nn.Parameter(torch.randn(5, 6) * 0.1)

    def forward(self, x):
        g, y = self.grid, x[..., None]
        b = ((y >= g[:, :-1]) & (y < g[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            b = ((y - g[:, :-(k + 1)]) / (g[:, k:-1] - g[:, :-(k + 1)]) * b[..., :-1]
                 + (g[:, k + 1:] - y) / (g[:, k + 1:] - g[:, 1:-k]) * b[..., 1:])
        return F.linear(F.silu(x), self.base) + F.linear(b.flatten(1), self.coef.view(5, -1))


class S4(nn.Module):
    def __init__(self, n=8, h=6):
        super().__init__()
        self.la, self.c, self.d = nn.Parameter(-torch.rand(h, n)), nn.Parameter(torch.randn(h, n, 2)), nn.Parameter(torch.randn(h))
        self.dt, self.out = nn.Parameter(torch.rand(h)), nn.Linear(h, 2 * h)

    def forward(self, u):
        L = u.shape[1]
        dt = self.dt.exp()
        a = torch.complex(self.la.exp().neg(), torch.arange(8.0).expand(6, 8))
        k = torch.einsum("hn,hnl->hl", torch.view_as_complex(self.c) * (torch.exp(a * dt[:, None]) - 1) / a,
                         torch.exp((a * dt[:, None])[..., None] * torch.arange(L))).real * 2
        kf, uf = torch.fft.rfft(k, n=2 * L), torch.fft.rfft(u.transpose(1, 2), n=2 * L)
        y = torch.fft.irfft(uf * kf, n=2 * L)[..., :L] + u.transpose(1, 2) * self.d[:, None]
        return F.glu(self.out(F.gelu(y).transpose(1, 2)), -1)


class Rwkv(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(3, c))
        self.k, self.v, self.r, self.o = [nn.Linear(c, c, bias=False) for _ in range(4)]
        self.w, self.u = nn.Parameter(torch.randn(c)), nn.Parameter(torch.randn(c))

    def forward(self, x):
        B, T, C = x.shape
        p = F.pad(x, (0, 0, 1, -1))
        xk, xv, xr = x * self.mix[0] + p * (1 - self.mix[0]), x * self.mix[1] + p * (1 - self.mix[1]), x * self.mix[2] + p * (1 - self.mix[2])
        k, v, r = self.k(xk), self.v(xv), torch.sigmoid(self.r(xr))
        aa, bb, pp = torch.zeros(B, C), torch.zeros(B, C), torch.full((B, C), -1e38)
        ys: List[Tensor] = []
        w = -torch.exp(self.w)
        for t in range(T):
            kt, vt = k[:, t], v[:, t]
            ww = self.u + kt
            q = torch.maximum(pp, ww)
            e1, e2 = torch.exp(pp - q), torch.exp(ww - q)
            ys.append((e1 * aa + e2 * vt) / (e1 * bb + e2))
            ww = pp + w
            q = torch.maximum(ww, kt)
            e1, e2 = torch.exp(ww - q), torch.exp(kt - q)
            aa, bb, pp = e1 * aa + e2 * vt, e1 * bb + e2, q
        return self.o(r * torch.stack(ys, 1))


class Viterbi(nn.Module):
    def __init__(self, n=5):
        super().__init__()
        self.lstm = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.emit, self.trans = nn.Linear(8, n), nn.Parameter(torch.randn(n, n))

    def forward(self, x, lengths):
        e = self.emit(self.lstm(x)[0])
        B, T, N = e.shape
        score = e[:, 0]
        back: List[Tensor] = []
        for t in range(1, T):
            best, idx = (score[:, :, None] + self.trans[None]).max(1)
            on = (t < lengths)[:, None]
            score = torch.where(on, best + e[:, t], score)
            back.append(torch.where(on, idx, torch.arange(N)[None].expand(B, N)))
        total, last = score.max(1)
        path = [last]
        for i in range(len(back)):
            last = back[len(back) - 1 - i].gather(1, last[:, None])[:, 0]
            path.append(last)
        path.reverse()
        return total, torch.stack(path, 1)


class BeamSearch(nn.Module):
    def __init__(self, v=11, h=12):
        super().__init__()
        self.emb, self.cell, self.out = nn.Embedding(v, h), nn.GRUCell(h, h), nn.Linear(h, v)
        self.v = v

    def forward(self, h0, beams: int, steps: int):
        B = h0.shape[0]
        h = h0.repeat_interleave(beams, 0)
        seq = torch.zeros(B, beams, 1, dtype=torch.long)
        scores = torch.full((B, beams), -1e9)
        scores[:, 0] = 0
        for _ in range(steps):
            h = self.cell(self.emb(seq[:, :, -1].reshape(-1)), h)
            lp = F.log_softmax(self.out(h), -1).view(B, beams, -1)
            done = seq[:, :, -1] == 1
            lp = lp.masked_fill(done[..., None], -1e9)
            lp[..., 1] = torch.where(done, torch.zeros_like(lp[..., 1]), lp[..., 1])
            total, flat = (scores[..., None] + lp).view(B, -1).topk(beams)
            which, tok = torch.div(flat, self.v, rounding_mode="floor"), flat % self.v
            seq = torch.cat([seq.gather(1, which[..., None].expand(-1, -1, seq.shape[-1])), tok[..., None]], -1)
            h = h.view(B, beams, -1).gather(1, which[..., None].expand(-1, -1, h.shape[-1])).flatten(0, 1)
            scores = total
            if bool((seq[:, :, -1] == 1).all()):
                break
        return seq, scores


class MelFrontEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("fb", torch.rand(33, 10))
        self.net = nn.Sequential(nn.Conv1d(10, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1))

    def forward(self, x):
        s = torch.stft(x, 64, 16, window=self.window, return_complex=True, center=True, pad_mode="reflect")
        m = torch.matmul(s.abs().pow(2).transpose(-1, -2), self.fb).transpose(-1, -2)
        m = torch.log10(m.clamp(min=1e-10))
        m = torch.maximum(m, m.amax((1, 2), keepdim=True) - 8.0)
        y = torch.istft(s, 64, 16, window=self.window, length=x.shape[-1])
        return self.net((m + 4) / 4).squeeze(-1), y


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 1))
        self.head = nn.Linear(16, 4)

    def forward(self, xyz):
        B, N, _ = xyz.shape
        far = torch.zeros(B, dtype=torch.long)
        dist = torch.full((B, N), 1e10)
        idx: List[Tensor] = []
        for _ in range(8):
            idx.append(far)
            c = xyz[torch.arange(B), far][:, None]
            dist = torch.minimum(dist, ((xyz - c) ** 2).sum(-1))
            far = dist.argmax(-1)
        fps = torch.stack(idx, 1)
        centers = xyz[torch.arange(B)[:, None], fps]
        d = torch.cdist(centers, xyz)
        near = d.topk(5, largest=False)[1]
        group = xyz[torch.arange(B)[:, None, None], near]
        f = torch.cat([group - centers[:, :, None], group], -1).permute(0, 3, 2, 1)
        return self.head(self.mlp(f).max(2)[0].max(-1)[0]), fps


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.SiLU())
        self.heads = nn.ModuleList([nn.Conv2d(16, 3 * 7, 1), nn.Conv2d(16, 3 * 7, 1)])
        self.register_buffer("anchors", torch.tensor([[[10., 13], [16, 30], [33, 23]], [[30, 61], [62, 45], [59, 119]]]))

    def forward(self, x):
        f = self.net(x)
        feats = [f, F.max_pool2d(f, 2)]
        out: List[Tensor] = []
        for i, head in enumerate(self.heads):
            y = head(feats[i])
            b, _, ny, nx = y.shape
            y = y.view(b, 3, 7, ny, nx).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
            gy, gx = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
            grid = torch.stack([gx, gy], 2).view(1, 1, ny, nx, 2).float()
            s = float(x.shape[2]) / ny
            y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + grid) * s
            y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors[i].view(1, 3, 1, 1, 2)
            out.append(y.view(b, -1, 7))
        p = torch.cat(out, 1)
        conf, cls = (p[..., 5:] * p[..., 4:5]).max(-1)
        xy, wh = p[..., :2], p[..., 2:4]
        box = torch.cat([xy - wh / 2, xy + wh / 2], -1)
        keep = conf[0] > 0.3
        return p, box[0][keep], conf[0][keep], cls[0][keep]


class Nms(nn.Module):
    def forward(self, boxes, scores, limit: float):
        order = scores.argsort(descending=True)
        keep: List[int] = []
        while order.numel() > 0:
            i = int(order[0].item())
            keep.append(i)
            if order.numel() == 1:
                break
            rest = order[1:]
            lt = torch.maximum(boxes[i, :2], boxes[rest, :2])
            rb = torch.minimum(boxes[i, 2:], boxes[rest, 2:])
            wh = (rb - lt).clamp(min=0)
            inter = wh[:, 0] * wh[:, 1]
            area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
            iou = inter / (area[i] + area[rest] - inter)
            order = rest[iou <= limit]
        return torch.tensor(keep, dtype=torch.long)


class Gat(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.a = nn.Linear(5, 8), nn.Linear(16, 1)

    def forward(self, x, adj):
        h = self.lin(x)
        n = h.shape[0]
        pair = torch.cat([h[:, None].expand(n, n, 8), h[None].expand(n, n, 8)], -1)
        e = F.leaky_relu(self.a(pair).squeeze(-1), 0.2).masked_fill(adj == 0, float("-inf"))
        a = torch.nan_to_num(torch.softmax(e, -1))
        deg = adj.sum(-1).clamp(min=1).pow(-0.5)
        norm = deg[:, None] * adj * deg[None]
        return F.elu(a @ h) + norm @ h


class Ntm(nn.Module):
    def __init__(self):
        super().__init__()
        self.ctl = nn.LSTMCell(9, 12)
        self.key, self.beta, self.write = nn.Linear(12, 5), nn.Linear(12, 1), nn.Linear(12, 10)

    def forward(self, x):
        B = x.shape[1]
        mem, r = torch.full((B, 7, 5), 1e-3), torch.zeros(B, 5)
        h, c = torch.zeros(B, 12), torch.zeros(B, 12)
        ys = []
        for xt in x:
            h, c = self.ctl(torch.cat([xt, r], -1), (h, c))
            w = torch.softmax(F.softplus(self.beta(h)) * F.cosine_similarity(self.key(h)[:, None], mem, dim=-1), -1)
            e, a = self.write(h).chunk(2, -1)
            mem = mem * (1 - w[..., None] * e.sigmoid()[:, None]) + w[..., None] * a.tanh()[:, None]
            r = torch.bmm(w[:, None], mem)[:, 0]
            ys.append(r)
        return torch.stack(ys), mem



class DictModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleDict({"user": nn.Embedding(9, 4), "item": nn.Embedding(7, 4)})
        self.mlp = nn.Linear(8, 2)

    def forward(self, feats: Dict[str, Tensor], extra: Optional[Tensor] = None) -> Dict[str, Tensor]:
        parts: List[Tensor] = []
        for name, table in self.tables.items():
            if name in feats:
                parts.append(table(feats[name]).mean(1))
        x = torch.cat(parts, -1)
        if extra is not None:
            x = x * extra
        y = self.mlp(x)
        return {"logits": y, "p": y.softmax(-1), "size": torch.tensor(x.size(0))}


class DeepFm(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(30, 6, mode="mean", padding_idx=0)
        self.emb, self.lin = nn.Embedding(30, 6), nn.Embedding(30, 1)
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.PReLU(), nn.Dropout(0.2), nn.Linear(16, 1))

    def forward(self, ids, offsets, flat):
        e = self.emb(ids)
        fm = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(-1, keepdim=True)
        cross = torch.matmul(e, e.transpose(1, 2))
        iu = torch.triu_indices(4, 4, 1)
        inter = cross[:, iu[0], iu[1]].sum(-1, keepdim=True)
        return torch.sigmoid(self.lin(ids).sum(1) + fm + inter + self.deep(e.flatten(1))), self.bag(flat, offsets)


class TcnGlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 16, 3, dilation=2 ** i)) for i in range(4)])
        self.skips = nn.ModuleList([nn.Conv1d(8, 8, 1) for _ in range(4)])
        self.inp = nn.Conv1d(1, 8, 1)

    def forward(self, x):
        h, s = self.inp(x), 0
        for i, (c, k) in enumerate(zip(self.convs, self.skips)):
            y = c(F.pad(h, (2 * 2 ** i, 0)))
            a, b = y.chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            h = h + y
            s = s + k(y)
        return F.relu(s).mean(-1), h


class TimesBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        B, T, N = x.shape
        amp = torch.fft.rfft(x, dim=1).abs().mean(0).mean(-1)
        amp[0] = 0
        _, top = torch.topk(amp, 2)
        res: List[Tensor] = []
        for i in range(2):
            p = T // max(int(top[i]), 1)
            n = (T + p - 1) // p
            y = F.pad(x, (0, 0, 0, n * p - T)).reshape(B, n, p, N).permute(0, 3, 1, 2)
            res.append(self.c(y).permute(0, 2, 3, 1).reshape(B, -1, N)[:, :T])
        return torch.stack(res, -1).mean(-1) + x


class Deform(nn.Module):
    def __init__(self):
        super().__init__()
        self.off = nn.Conv2d(4, 18, 3, padding=1)
        self.w = nn.Parameter(torch.randn(6, 4, 3, 3))

    def forward(self, x):
        import torchvision
        return torchvision.ops.deform_conv2d(x, self.off(x) * 0.1, self.w, padding=1)


class Stn(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6))

    def forward(self, x):
        theta = self.loc(x).view(-1, 2, 3) + torch.tensor([[1.0, 0, 0], [0, 1, 0]])
        return F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False, padding_mode="border")


class CorrFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(81 + 8, 2 + 9 * 4, 3, padding=1)

    def forward(self, a, b):
        fa, fb = F.normalize(self.f(a), dim=1), F.normalize(self.f(b), dim=1)
        B, C, H, W = fa.shape
        pad = F.pad(fb, (4, 4, 4, 4))
        corr = torch.stack([(fa * pad[:, :, i:i + H, j:j + W]).mean(1) for i in range(9) for j in range(9)], 1)
        y = self.up(torch.cat([corr, fa], 1))
        flow, mask = y[:, :2], y[:, 2:].view(B, 1, 9, 2, 2, H, W).softmax(2)
        u = F.unfold(2 * flow, (3, 3), padding=1).view(B, 2, 9, 1, 1, H, W)
        return torch.sum(mask * u, 2).permute(0, 1, 4, 2, 5, 3).reshape(B, 2, 2 * H, 2 * W)


class RelPos(nn.Module):
    def __init__(self, h=2, d=8):
        super().__init__()
        self.qkv, self.e, self.o = nn.Linear(d, 3 * d), nn.Parameter(torch.randn(2 * 16 - 1, d // h)), nn.Linear(d, d)
        self.u = nn.Parameter(torch.randn(h, d // h))
        self.h = h

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        rel = self.e[15 - (T - 1):15 + T]
        bd = torch.einsum("bhtd,rd->bhtr", q + self.u[:, None], rel)
        bd = F.pad(bd, (1, 0)).view(B, self.h, -1, T)[:, :, 1:].reshape(B, self.h, T, 2 * T - 1)[..., :T]
        a = ((q @ k.transpose(-1, -2) + bd) / math.sqrt(D // self.h)).softmax(-1)
        return self.o((a @ v).transpose(1, 2).reshape(B, T, D))


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.lat = nn.Parameter(torch.randn(4, 8))
        self.x = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
        self.s = nn.MultiheadAttention(8, 2, batch_first=True)
        self.g = nn.Bilinear(8, 8, 3)

    def forward(self, x, pad):
        l = self.lat.expand(x.shape[0], -1, -1)
        y, w = self.x(l, x, x, key_padding_mask=pad)
        z, _ = self.s(y, y, y, need_weights=False)
        return self.g(y, z), w


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(4)])

    def forward(self, x):
        flat = x.reshape(-1, 8)
        w, i = self.gate(flat).softmax(-1).topk(2)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for n, e in enumerate(self.experts):
            rows, at = torch.where(i == n)
            if rows.numel() > 0:
                out.index_add_(0, rows, e(flat[rows]) * w[rows, at, None])
        return out.view_as(x)


class Ctc(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.o = nn.GRU(5, 6, 2, bidirectional=True), nn.Linear(12, 7)

    def forward(self, x) -> Tuple[Tensor, List[List[int]]]:
        p = self.o(self.rnn(x)[0]).log_softmax(-1)
        ids = p.argmax(-1)
        texts: List[List[int]] = []
        for b in range(ids.shape[1]):
            last = -1
            row: List[int] = []
            for t in range(ids.shape[0]):
                c = int(ids[t, b])
                if c != last and c != 0:
                    row.append(c)
                last = c
            texts.append(row)
        return p, texts


class Kalman(nn.Module):
    def __init__(self):
        super().__init__()
        self.A, self.H = nn.Parameter(torch.eye(3) + 0.1 * torch.randn(3, 3)), nn.Parameter(torch.randn(2, 3))

    def forward(self, z):
        x, P = torch.zeros(3, 1), torch.eye(3)
        Q, R, I = 0.1 * torch.eye(3), 0.5 * torch.eye(2), torch.eye(3)
        xs: List[Tensor] = []
        for t in range(z.shape[0]):
            x, P = self.A @ x, self.A @ P @ self.A.T + Q
            S = self.H @ P @ self.H.T + R
            K = torch.linalg.solve(S, self.H @ P).T
            x = x + K @ (z[t][:, None] - self.H @ x)
            P = (I - K @ self.H) @ P
            xs.append(x[:, 0])
        return torch.stack(xs), torch.logdet(P), torch.linalg.cholesky(P)


class Gp(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.y = nn.Parameter(torch.randn(6, 2)), nn.Parameter(torch.randn(6))

    def forward(self, q):
        k = lambda a, b: torch.exp(-0.5 * torch.cdist(a, b) ** 2)
        L = torch.linalg.cholesky(k(self.x, self.x) + 0.1 * torch.eye(6))
        a = torch.cholesky_solve(self.y[:, None], L)
        v = torch.linalg.solve_triangular(L, k(self.x, q), upper=False)
        return (k(q, self.x) @ a)[:, 0], 1 - (v ** 2).sum(0)


class Mdn(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Linear(4, 9)

    def forward(self, x, y):
        pi, mu, ls = self.n(x).chunk(3, -1)
        lp = torch.log_softmax(pi, -1) - 0.5 * ((y - mu) / ls.exp()) ** 2 - ls - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(lp, -1), torch.distributions.Normal(mu, ls.exp()).cdf(y) if not torch.jit.is_scripting() else lp


class Film(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.g = nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect"), nn.Linear(4, 16)
        self.i = nn.InstanceNorm2d(8, affine=True, track_running_stats=True)

    def forward(self, x, z):
        a, b = self.g(z)[..., None, None].chunk(2, 1)
        h = self.i(self.c(x)) * (1 + a) + b
        m, s = h.mean((2, 3), keepdim=True), h.std((2, 3), keepdim=True, unbiased=False)
        return F.hardswish((h - m) / (s + 1e-5)), F.interpolate(h, scale_factor=1.5, mode="bicubic", antialias=True)


class StyleConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.s = nn.Parameter(torch.randn(1, 6, 4, 3, 3)), nn.Linear(5, 4)
        self.register_buffer("k", torch.tensor([1., 3, 3, 1])[None] * torch.tensor([1., 3, 3, 1])[:, None] / 64)

    def forward(self, x, z):
        B, C, H, W = x.shape
        w = self.w * (self.s(z) + 1).view(B, 1, C, 1, 1)
        w = w * torch.rsqrt(w.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, -1, H, W), w.view(B * 6, C, 3, 3), padding=1, groups=B).view(B, 6, H, W)
        y = F.conv_transpose2d(y, self.k[None, None].repeat(6, 1, 1, 1), stride=2, padding=1, groups=6)
        return F.leaky_relu(y, 0.2) * math.sqrt(2)


class Hyper(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(3, 4 * 5 + 5)

    def forward(self, x, z):
        p = self.g(z)
        w, b = p[:, :20].view(-1, 5, 4), p[:, 20:]
        return torch.baddbmm(b[:, None], x, w.transpose(1, 2)), torch.bmm(x, w.mT).add(b.unsqueeze(1)).tanh()


class Snake(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(4, 1))
        self.up, self.mrf = nn.ConvTranspose1d(4, 4, 4, 2, 1), nn.ModuleList([nn.Conv1d(4, 4, k, padding=k // 2) for k in (3, 5)])

    def forward(self, x):
        h = self.up(x + (self.a * x).sin() ** 2 / (self.a + 1e-9))
        y = torch.zeros_like(h)
        for m in self.mrf:
            y += m(F.leaky_relu(h, 0.1))
        return torch.tanh(y / len(self.mrf))


class Complexes(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4, dtype=torch.cfloat))

    def forward(self, x):
        z = torch.fft.fft2(x, norm="ortho")
        z = torch.fft.fftshift(z) @ self.w
        r = torch.complex(F.relu(z.real), F.relu(z.imag))
        return torch.fft.ifft2(torch.fft.ifftshift(r)).real, torch.angle(z).abs().sum(), z.abs()


class Sinkhorn(nn.Module):
    def forward(self, a, b, n: int):
        c = torch.cdist(a, b, p=2.0).pow(2)
        u, v = torch.zeros(a.shape[0]), torch.zeros(b.shape[0])
        k = -c / 0.1
        for _ in range(n):
            u = -torch.logsumexp(k + v[None], 1)
            v = -torch.logsumexp(k + u[:, None], 0)
        p = (k + u[:, None] + v[None]).exp()
        return (p * c).sum(), p


class Lru(nn.Module):
    """Attributes that change as it runs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(1, 4))
        self.steps: int = 0
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        self.h = torch.tanh(self.lin(x) + self.h)
        self.steps += 1
        return self.h * self.steps


class Pad(nn.Module):
    def forward(self, xs: List[Tensor], value: float) -> Tuple[Tensor, Tensor]:
        most = max([x.shape[0] for x in xs])
        out = torch.full((len(xs), most, xs[0].shape[1]), value)
        mask = torch.zeros(len(xs), most, dtype=torch.bool)
        for i, x in enumerate(xs):
            out[i, :x.shape[0]] = x
            mask[i, :x.shape[0]] = True
        return out, mask


class Enums(nn.Module):
    def __init__(self, mode: str):
        super().__init__()
        self.mode = mode

    def forward(self, x, names: List[str]):
        y = x
        for n in names:
            if n == "relu":
                y = F.relu(y)
            elif n.startswith("scale:"):
                y = y * float(n[6:])
            else:
                raise ValueError("unknown: " + n)
        if self.mode in ("mean", "sum"):
            y = y.mean(-1) if self.mode == "mean" else y.sum(-1)
        assert y.dim() == 1, f"dim {y.dim()}"
        return y, "{}-{}".format(self.mode, len(names))


def kinds():
    torch.manual_seed(5)
    r = torch.randn
    adj = (torch.rand(6, 6) > 0.5).float()
    boxes = torch.rand(12, 2) * 10
    boxes = torch.cat([boxes, boxes + torch.rand(12, 2) * 8 + 1], 1)
    made = {
        "unet": (UNetDiffusion, r(2, 3, 16, 16), torch.tensor([3, 500])), "vqvae": (VqVae, r(2, 3, 16, 16)), "realnvp": (RealNvp, r(5, 6)),
        "nerf": (Siren, r(4, 3), r(4, 3), 0.5, 4.0), "spiking": (SpikingNet, r(6, 3, 10)), "capsules": (Capsules, r(2, 1, 16, 16)),
        "kan": (Kan, r(7, 6)), "s4": (S4, r(2, 20, 6)), "rwkv": (Rwkv, r(2, 7, 8)), "viterbi": (Viterbi, r(3, 6, 6), torch.tensor([6, 4, 2])),
        "beam": (BeamSearch, r(2, 12), 3, 6), "mel": (MelFrontEnd, r(2, 400)), "pointnet": (PointNet, r(2, 30, 3)),
        "yolo": (Yolo, r(1, 3, 32, 32)), "nms": (Nms, boxes, torch.rand(12), 0.3), "gat": (Gat, r(6, 5), adj), "ntm": (Ntm, r(5, 2, 4)),
        "dict": (DictModel, {"user": torch.tensor([[1, 2], [3, 4]]), "item": torch.tensor([[1, 0], [2, 2]])}, r(2, 8)),
        "deepfm": (DeepFm, torch.randint(0, 30, (3, 4)), torch.tensor([0, 2, 2]), torch.tensor([1, 0, 5, 6])),
        "tcn": (TcnGlow, r(2, 1, 30)), "times": (TimesBlock, r(2, 20, 4)), "deform": (Deform, r(1, 4, 8, 8)), "stn": (Stn, r(2, 1, 16, 16)),
        "flow": (CorrFlow, r(1, 3, 16, 16), r(1, 3, 16, 16)), "relpos": (RelPos, r(2, 9, 8)),
        "perceiver": (Perceiver, r(2, 7, 6), torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0] * 7]).bool()), "moe": (MoE, r(2, 5, 8)),
        "ctc": (Ctc, r(9, 2, 5)), "kalman": (Kalman, r(5, 2)), "gp": (Gp, r(4, 2)), "mdn": (Mdn, r(3, 4), r(3, 1)),
        "film": (Film, r(2, 3, 10, 10), r(2, 4)), "style": (StyleConv, r(2, 4, 8, 8), r(2, 5)), "hyper": (Hyper, r(2, 6, 4), r(2, 3)),
        "snake": (Snake, r(2, 4, 10)), "complex": (Complexes, r(2, 4, 4)), "sinkhorn": (Sinkhorn, r(5, 3), r(4, 3), 10), "state": (Lru, r(1, 4)),
        "pad": (Pad, [r(3, 2), r(5, 2), r(1, 2)], 7.0), "enums": (lambda: Enums("mean"), r(3, 4), ["relu", "scale:2.5"]),
    }
    return {k: (lambda v=v: (v[0]().eval(), v[1:], {})) for k, v in made.items()}
