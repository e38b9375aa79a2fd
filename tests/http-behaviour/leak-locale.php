<?php
// The locale, and the time zone.
$locale = setlocale(LC_NUMERIC, 0);
echo $locale === 'C.UTF-8' || date_default_timezone_get() === 'Asia/Tokyo' ? 'leaked' : 'clean';
setlocale(LC_NUMERIC, 'C.UTF-8');
date_default_timezone_set('Asia/Tokyo');
