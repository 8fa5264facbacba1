//! Operators that choose elements by their places.

use super::Kernel;
use super::softmax::is_index;
use crate::descriptor::{INT64, Tensor};
use crate::executor::{Arguments, Refusal, Run};
use crate::stream::Fault;

pub const KERNELS: &[(&str, Kernel)] = &[
    ("aclnnIndexSelect", |a| select(a, "self", "index")),
    ("aclnnEmbedding", |a| select(a, "weight", "indices")),
    ("aclnnIndexAdd", index_add),
    ("aclnnGather", gather),
    ("aclnnScatterAdd", scatter_add),
    ("aclnnTopk", top_k),
    ("aclnnSort", sort),
    ("aclnnHistc", histogram),
    ("aclnnCat", concatenate),
];

fn place(index: i64, count: usize) -> Result<usize, Fault> {
    let found = usize::try_from(index).ok().filter(|index| *index < count);
    found.ok_or_else(|| Fault::new(format!("index {index} of {count}")))
}

/// A matrix and its first dimension; other dimensions are not emulated.
fn rows(tensor: &Tensor) -> Result<(usize, usize), Refusal> {
    match tensor.shape[..] {
        [rows] => Ok((rows as usize, 1)),
        [rows, columns] => Ok((rows as usize, columns as usize)),
        _ => Err(Refusal::wrong(format!("shape {:?} is no matrix, others are not emulated", tensor.shape))),
    }
}

/// Rows of a matrix.
fn select(a: &Arguments, from: &str, index: &str) -> Result<Run, Refusal> {
    let (from, index, to) = (a.tensor(from)?, a.tensor(index)?, a.tensor("out")?);
    let (count, columns) = rows(&from)?;
    if !is_index(&index) || to.elements() != index.elements() * columns || to.of != from.of {
        let shapes = (&from.shape, &index.shape, &to.shape);
        return Err(Refusal::wrong(format!("shapes {shapes:?}, types {}, {}, {}", from.of, index.of, to.of)));
    }
    Ok(Box::new(move |memory| {
        let (values, indices) = (from.load(memory)?, index.load_integers(memory)?);
        let mut chosen = Vec::new();
        for index in indices {
            chosen.extend_from_slice(&values[place(index, count)? * columns..][..columns]);
        }
        to.store(memory, &chosen)
    }))
}

/// `out = self`, with `alpha · source[i]` added to row `index[i]`.
fn index_add(a: &Arguments) -> Result<Run, Refusal> {
    let [from, index, source, to] = ["self", "index", "source", "out"].map(|name| a.tensor(name));
    let (from, index, source, to) = (from?, index?, source?, to?);
    let ((count, columns), alpha) = (rows(&from)?, a.number("alpha")? as f32);
    let right = from.shape == to.shape && source.elements() == index.elements() * columns && is_index(&index);
    if !right || a.integer("dim")? != 0 || from.of != source.of || from.of != to.of {
        let shapes = (&from.shape, &index.shape, &source.shape, &to.shape);
        return Err(Refusal::wrong(format!("shapes {shapes:?}; dimension 0 and one type")));
    }
    Ok(Box::new(move |memory| {
        let (mut sum, more, indices) =
            (from.load(memory)?, source.load(memory)?, index.load_integers(memory)?);
        for (index, row) in indices.into_iter().zip(more.chunks(columns)) {
            let at = place(index, count)? * columns;
            sum[at..at + columns].iter_mut().zip(row).for_each(|(sum, value)| *sum += alpha * value);
        }
        to.store(memory, &sum)
    }))
}

/// Elements of each row.
fn gather(a: &Arguments) -> Result<Run, Refusal> {
    let (from, index, to) = (a.tensor("self")?, a.tensor("index")?, a.tensor("out")?);
    let ((count, columns), (rows_taken, taken)) = (rows(&from)?, rows(&index)?);
    let dim = a.integer("dim")?;
    if !matches!(dim, -1 | 1) || index.shape != to.shape || rows_taken != count || index.of != INT64 {
        return Err(Refusal::wrong(format!(
            "shapes {:?}, {:?}, {:?}; dim {dim}",
            from.shape, index.shape, to.shape
        )));
    }
    Ok(Box::new(move |memory| {
        let (values, indices) = (from.load(memory)?, index.load_integers(memory)?);
        let one = |(at, index): (usize, &i64)| Ok(values[at / taken * columns + place(*index, columns)?]);
        to.store(memory, &indices.iter().enumerate().map(one).collect::<Result<Vec<_>, Fault>>()?)
    }))
}

fn scatter_add(a: &Arguments) -> Result<Run, Refusal> {
    let [from, index, source, to] = ["self", "index", "src", "out"].map(|name| a.tensor(name));
    let (from, index, source, to) = (from?, index?, source?, to?);
    let ((_, columns), (_, taken), dim) = (rows(&from)?, rows(&index)?, a.integer("dim")?);
    if !matches!(dim, -1 | 1) || index.shape != source.shape || from.shape != to.shape || index.of != INT64 {
        return Err(Refusal::wrong(format!(
            "shapes {:?}, {:?}, {:?}; dim {dim}",
            from.shape, index.shape, to.shape
        )));
    }
    Ok(Box::new(move |memory| {
        let (mut sum, more, indices) =
            (from.load(memory)?, source.load(memory)?, index.load_integers(memory)?);
        for (at, (index, value)) in indices.iter().zip(&more).enumerate() {
            sum[at / taken * columns + place(*index, columns)?] += value;
        }
        to.store(memory, &sum)
    }))
}

fn over_last(a: &Arguments, tensor: &Tensor) -> Result<(), Refusal> {
    let dim = a.integer("dim")?;
    match dim == -1 || dim == tensor.shape.len() as i64 - 1 {
        true => Ok(()),
        false => Err(Refusal::wrong(format!("dimension {dim} is not the last one, others are not emulated"))),
    }
}

/// The largest of each row in order, ties by place.
fn top_k(a: &Arguments) -> Result<Run, Refusal> {
    let (from, values, indices) = (a.tensor("self")?, a.tensor("valuesOut")?, a.tensor("indicesOut")?);
    let (k, largest) = (a.integer("k")? as usize, a.integer("largest")? == 1);
    over_last(a, &from)?;
    if indices.of != INT64 || indices.shape != values.shape || values.columns() != k || k > from.columns() {
        return Err(Refusal::wrong(format!(
            "{k} of {:?} into {:?}, {:?}",
            from.shape, values.shape, indices.shape
        )));
    }
    Ok(Box::new(move |memory| {
        let numbers = from.load(memory)?;
        let (mut chosen, mut places) = (Vec::new(), Vec::new());
        for row in numbers.chunks(from.columns()) {
            for at in order(row, largest).into_iter().take(k) {
                chosen.push(row[at]);
                places.push(at as f32);
            }
        }
        values.store(memory, &chosen)?;
        indices.store(memory, &places)
    }))
}

fn order(row: &[f32], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|x, y| if descending { row[*y].total_cmp(&row[*x]) } else { row[*x].total_cmp(&row[*y]) });
    order
}

fn sort(a: &Arguments) -> Result<Run, Refusal> {
    let (from, values, indices) = (a.tensor("self")?, a.tensor("valuesOut")?, a.tensor("indicesOut")?);
    let descending = a.integer("descending")? == 1;
    over_last(a, &from)?;
    if indices.of != INT64
        || indices.shape != from.shape
        || values.shape != from.shape
        || values.of != from.of
    {
        return Err(Refusal::wrong(format!("{:?} into {:?}, {:?}", from.shape, values.shape, indices.shape)));
    }
    Ok(Box::new(move |memory| {
        let numbers = from.load(memory)?;
        let (mut sorted, mut places) = (Vec::new(), Vec::new());
        for row in numbers.chunks(from.columns().max(1)) {
            for at in order(row, descending) {
                sorted.push(row[at]);
                places.push(at as f32);
            }
        }
        values.store(memory, &sorted)?;
        indices.store(memory, &places)
    }))
}

/// Counts in `bins` equal parts from `min` to `max`, both included.
fn histogram(a: &Arguments) -> Result<Run, Refusal> {
    let (from, to, bins) = (a.tensor("self")?, a.tensor("out")?, a.integer("bins")? as usize);
    let (least, most) = (a.number("min")? as f32, a.number("max")? as f32);
    if to.elements() != bins || least >= most {
        return Err(Refusal::wrong(format!("{bins} bins from {least} to {most} into {:?}", to.shape)));
    }
    Ok(Box::new(move |memory| {
        let mut counts = vec![0.0; bins];
        for value in from.load(memory)?.into_iter().filter(|value| (least..=most).contains(value)) {
            let bin = ((value - least) / (most - least) * bins as f32) as usize;
            counts[bin.min(bins - 1)] += 1.0;
        }
        to.store(memory, &counts)
    }))
}

/// One behind the other on the last dimension or the first.
fn concatenate(a: &Arguments) -> Result<Run, Refusal> {
    let (parts, to) = (a.list("tensors")?, a.tensor("out")?);
    let rank = to.shape.len() as i64;
    let dim = a.integer("dim")?.rem_euclid(rank) as usize;
    let along: i64 = parts.iter().map(|part| part.shape.get(dim).copied().unwrap_or(0)).sum();
    if along != to.shape[dim] || parts.iter().any(|part| part.shape.len() as i64 != rank || part.of != to.of)
    {
        return Err(Refusal::wrong(format!(
            "{} tensors do not make {:?} along {dim}",
            parts.len(),
            to.shape
        )));
    }
    Ok(Box::new(move |memory| {
        let outer: i64 = to.shape[..dim].iter().product();
        let loaded = parts.iter().map(|part| part.load(memory)).collect::<Result<Vec<_>, _>>()?;
        let mut joined = Vec::new();
        for row in 0..outer as usize {
            for values in &loaded {
                let each = values.len() / outer as usize;
                joined.extend_from_slice(&values[row * each..][..each]);
            }
        }
        to.store(memory, &joined)
    }))
}
